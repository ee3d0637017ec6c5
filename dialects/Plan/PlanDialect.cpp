//===- PlanDialect.cpp - When, on which stream, in which bytes ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Plan/PlanDialect.h"
#include "dialects/NN/FunctionSyntax.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::planir;

#include "dialects/Plan/PlanDialect.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Plan/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Plan/PlanOps.cpp.inc"
      >();
}

RegionKind ProgramOp::getRegionKind(unsigned) { return RegionKind::Graph; }

//===----------------------------------------------------------------------===//
// Kernels and launches
//===----------------------------------------------------------------------===//

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  return nn::parseFunction<KernelOp>(parser, result);
}

void KernelOp::print(OpAsmPrinter &printer) {
  nn::printFunction(printer, *this);
}

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                     FunctionType type, StringRef generator,
                     ArrayRef<int64_t> ties) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addAttribute(getGeneratorAttrName(state.name),
                     builder.getStringAttr(generator));
  state.addAttribute(getTiesAttrName(state.name),
                     builder.getDenseI64ArrayAttr(ties));
  state.addRegion();
}

LogicalResult KernelOp::verify() {
  if (getTies().size() != getResultTypes().size())
    return emitOpError("has ties for ")
           << getTies().size() << " results of " << getResultTypes().size();
  for (auto [index, tie] : llvm::enumerate(getTies())) {
    if (tie < -1 || tie >= static_cast<int64_t>(getArgumentTypes().size()))
      return emitOpError("ties result ") << index << " to argument " << tie
                                         << " of " << getArgumentTypes().size();
    if (tie >= 0 && getArgumentTypes()[tie] != getResultTypes()[index])
      return emitOpError("ties result ")
             << index << " of type " << getResultTypes()[index]
             << " to an argument of type " << getArgumentTypes()[tie];
  }
  if (getBody().empty())
    return success();
  auto yield = dyn_cast<YieldOp>(getBody().back().back());
  if (!yield || yield.getOperandTypes() != TypeRange(getResultTypes()))
    return emitOpError("must yield values of types ")
           << TypeRange(getResultTypes());
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto kernel =
      tables.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("launches unknown kernel ") << getKernelAttr();
  bool valueForm = llvm::none_of(
      getOperandTypes(), [](Type type) { return isa<MemRefType>(type); });
  if (valueForm) {
    if (TypeRange(kernel.getArgumentTypes()) != getOperandTypes() ||
        TypeRange(kernel.getResultTypes()) != getResultTypes())
      return emitOpError("does not fit the type of kernel ") << getKernelAttr();
    return success();
  }
  size_t untied = llvm::count(kernel.getTies(), -1);
  if (getNumOperands() != kernel.getArgumentTypes().size() + untied ||
      getNumResults() != 0)
    return emitOpError("passes ")
           << getNumOperands() << " operands to kernel " << getKernelAttr()
           << ", which takes " << kernel.getArgumentTypes().size() << " and "
           << untied << " results";
  return success();
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

ParseResult SequenceOp::parse(OpAsmParser &parser, OperationState &result) {
  return nn::parseFunction<SequenceOp>(parser, result);
}

void SequenceOp::print(OpAsmPrinter &printer) {
  nn::printFunction(printer, *this);
}

void SequenceOp::build(OpBuilder &builder, OperationState &state,
                       StringRef name, FunctionType type, int64_t frameBytes) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addAttribute(getFrameBytesAttrName(state.name),
                     builder.getI64IntegerAttr(frameBytes));
  state.addRegion();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto sequence =
      tables.lookupNearestSymbolFrom<SequenceOp>(*this, getSequenceAttr());
  if (!sequence)
    return emitOpError("runs unknown sequence ") << getSequenceAttr();
  if (TypeRange(sequence.getArgumentTypes()) != getOperandTypes())
    return emitOpError("does not fit the arguments of ") << getSequenceAttr();
  return success();
}
