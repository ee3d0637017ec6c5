//===- Kernel.cpp - Kernels and their launches ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/FunctionSyntax.h"
#include "dialects/Plan/PlanDialect.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::planir;

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  return nn::parseFunction<KernelOp>(parser, result);
}

void KernelOp::print(OpAsmPrinter &printer) {
  nn::printFunction(printer, *this);
}

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                     FunctionType type, nn::Generator generator,
                     ArrayRef<int64_t> ties) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addAttribute(getGeneratorAttrName(state.name),
                     GeneratorAttr::get(builder.getContext(), generator));
  state.addAttribute(getTiesAttrName(state.name),
                     builder.getDenseI64ArrayAttr(ties));
  state.addRegion();
}

SmallVector<Type> KernelOp::getLaunchTypes() {
  SmallVector<Type> types(getArgumentTypes());
  for (auto [type, tie] : llvm::zip(getResultTypes(), getTies()))
    if (tie < 0)
      types.push_back(type);
  return types;
}

unsigned KernelOp::getLaunchOperandOf(unsigned result) {
  if (int64_t tie = getTies()[result]; tie >= 0)
    return tie;
  return getArgumentTypes().size() +
         llvm::count(getTies().take_front(result), -1);
}

Type KernelOp::getBufferType(unsigned operand) {
  Type type = getLaunchTypes()[operand];
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? Type(dist::memoryOf(tensor, getLeadingDimension(operand)))
                : type;
}

/// Checks the leading dimensions of a kernel's operands. A leading dimension is
/// larger than the length of a row, or 0 if rows have no padding.
static LogicalResult verifyLeadingDimensions(KernelOp kernel) {
  if (!kernel.getLeadingDimensions())
    return success();
  SmallVector<Type> types = kernel.getLaunchTypes();
  if (kernel.getLeadingDimensions()->size() != types.size())
    return kernel.emitOpError("has leading dimensions of ")
           << kernel.getLeadingDimensions()->size() << " operands of "
           << types.size();
  for (auto [type, leading] :
       llvm::zip(types, *kernel.getLeadingDimensions())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (leading != 0 && (!tensor || tensor.getRank() < 2 ||
                         leading <= tensor.getShape().back()))
      return kernel.emitOpError("cannot have ")
             << type << " in rows that begin " << leading << " elements apart";
  }
  return success();
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
  if (getResultTypes().empty())
    return emitOpError("gives nothing");
  for (Type type :
       llvm::concat<const Type>(getArgumentTypes(), getResultTypes()))
    if (!type.isIndex() && !(isa<RankedTensorType>(type) &&
                             dist::isStorable(getElementTypeOrSelf(type))))
      return emitOpError("takes or gives ")
             << type << "; tensors of f64, f32, bf16, f16, i8, i32 and i64 and "
             << "numbers of type index are possible";
  llvm::SmallDenseSet<int64_t> tied;
  for (int64_t tie : getTies())
    if (tie >= 0 && !tied.insert(tie).second)
      return emitOpError("ties two results to argument ") << tie;
  if (failed(verifyLeadingDimensions(*this)))
    return failure();
  if (getOnHost() && mostScratchBytes() > 0)
    return emitOpError("runs on the host, where kernels have no scratch "
                       "memory; it needs ")
           << mostScratchBytes() << " bytes";
  if (!getBody().hasOneBlock())
    return emitOpError("must have a body of one block");
  auto yield = getBody().front().empty()
                   ? YieldOp()
                   : dyn_cast<YieldOp>(getBody().front().back());
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
  Stream stream =
      kernel.getOnHost() && !valueForm ? Stream::Host : Stream::Compute;
  if (getStream() != stream)
    return emitOpError("is on the stream ")
           << stringifyStream(getStream()) << ", kernel " << getKernelAttr()
           << " runs on " << stringifyStream(stream);
  if (valueForm) {
    if (TypeRange(kernel.getArgumentTypes()) != getOperandTypes() ||
        TypeRange(kernel.getResultTypes()) != getResultTypes())
      return emitOpError("does not fit the type of kernel ") << getKernelAttr();
    return success();
  }
  size_t wanted = kernel.getLaunchTypes().size();
  if (getNumOperands() != wanted || getNumResults() != 0)
    return emitOpError("passes ")
           << getNumOperands() << " operands to kernel " << getKernelAttr()
           << ", which takes " << kernel.getArgumentTypes().size() << " and "
           << wanted - kernel.getArgumentTypes().size() << " results";
  for (auto [index, type] : llvm::enumerate(getOperandTypes()))
    if (type != kernel.getBufferType(index))
      return emitOpError("passes ")
             << type << " as operand " << index << " to kernel "
             << getKernelAttr() << ", which takes "
             << kernel.getBufferType(index);
  return success();
}
