//===- NNModelOps.cpp - Models, states, functions, steps ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers and methods of the operations of NNModelOps.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/FunctionSyntax.h"
#include "dialects/NN/NNDialect.h"
#include "dialects/NN/StateSources.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace heddle::nn;

//===----------------------------------------------------------------------===//
// Model, states, buckets
//===----------------------------------------------------------------------===//

RegionKind ModelOp::getRegionKind(unsigned) { return RegionKind::Graph; }

bool heddle::nn::isMadeInStep(StateRole role) {
  switch (role) {
  case StateRole::Gradient:
  case StateRole::Accumulator:
  case StateRole::Scalar:
  case StateRole::Saved:
    return true;
  case StateRole::Parameter:
  case StateRole::Derived:
  case StateRole::Optimizer:
  case StateRole::Cache:
  case StateRole::Constant:
    return false;
  }
  llvm_unreachable("a role that is not known");
}

LogicalResult StateOp::verify() {
  if (failed(verifyStored(*this, getType(), getSourceAttr(), getWholeAttr(),
                          getPackedAttr())))
    return failure();
  if (getPackedAttr() && getRole() != StateRole::Derived)
    return emitOpError("is packed, but not derived");
  RankedTensorType type = getTensorType();
  bool isConstant = getRole() == StateRole::Constant;
  if (isConstant != (getValueAttr() != nullptr) ||
      (isConstant && getValueAttr().getType() != type))
    return emitOpError("needs a value of type ")
           << type << " if and only if its role is constant";
  InitAttr init = getInitAttr();
  auto whole = cast<RankedTensorType>(
      getWhole().value_or(getPacked() ? getPacked()->getOf() : type));
  if (init && init.getZeroRow() >= 0 &&
      (whole.getRank() == 0 || init.getZeroRow() >= whole.getDimSize(0)))
    return emitOpError("initialises row ")
           << init.getZeroRow() << " of " << whole << " with zeros";
  if (getRole() == StateRole::Saved && type.getRank() == 0)
    return emitOpError("holds no slots: it is of rank 0");
  static constexpr StateRole owners[] = {
      StateRole::Parameter, StateRole::Accumulator, StateRole::Scalar,
      StateRole::Saved,     StateRole::Cache,       StateRole::Constant};
  bool own = getPackedAttr() || llvm::is_contained(owners, getRole());
  // A rank's own errors of what it sends are for all parameters of a bucket.
  bool areOwn = getRole() == StateRole::Optimizer && !getParameter() &&
                getHeld() == Holding::Replica;
  if (getRole() == StateRole::Optimizer && !getParameter() &&
      type.getRank() > 0 && !areOwn)
    return emitOpError("is kept for all parameters, but is no number: it has "
                       "type ")
           << type;
  if (getHeld() && !areOwn &&
      (getRole() != StateRole::Optimizer || !getParameter() ||
       *getHeld() == Holding::Replica))
    return emitOpError("is held as \"")
           << stringifyHolding(*getHeld())
           << "\", which only a state of the optimizer for a parameter may be, "
              "as \"parameter\", \"whole\" or \"local\", or one for all "
              "parameters, as \"replica\"";
  if (getRole() != StateRole::Optimizer && getRole() != StateRole::Scalar &&
      own == getParameter().has_value())
    return emitOpError(
        own ? "names a parameter, which states of its role do not have"
            : "does not name the parameter it belongs to");
  return success();
}

Holding StateOp::getHolding() {
  if (getHeld())
    return *getHeld();
  if (getRole() == StateRole::Gradient)
    return Holding::Replica;
  return getRole() == StateRole::Parameter || getParameter()
             ? Holding::Parameter
             : Holding::Whole;
}

StringRef StateOp::getQuantity() {
  StringRef name = getSymName();
  if (getParameter() && name.consume_front(*getParameter()))
    name.consume_front(".");
  return name;
}

LogicalResult StateOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto model = (*this)->getParentOfType<ModelOp>();
  if (!model || !getParameter())
    return success();
  auto parameter = dyn_cast_or_null<StateOp>(
      tables.lookupSymbolIn(model, getParameterAttr()));
  if (!parameter || parameter.getRole() != StateRole::Parameter)
    return emitOpError("belongs to \"")
           << *getParameter() << "\", which is no parameter";
  bool isNumber =
      getRole() == StateRole::Optimizer && getTensorType().getRank() == 0;
  if (!isNumber &&
      parameter.getTensorType().getShape() != getTensorType().getShape())
    return emitOpError("has type ")
           << getType() << ", its parameter " << parameter.getType();
  return success();
}

LogicalResult BucketOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || type.getRank() != 1 || !dist::isStorable(type.getElementType()))
    return emitOpError("needs a tensor type of rank 1, of f64, f32, bf16, "
                       "f16, i8, i32 or i64, got ")
           << getType();
  if (getMembers().empty())
    return emitOpError("has no members");
  DenseSet<Attribute> members;
  for (Attribute member : getMembers())
    if (!members.insert(member).second)
      return emitOpError("has the member ") << member << " twice";
  return success();
}

LogicalResult BucketOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto model = (*this)->getParentOfType<ModelOp>();
  if (!model)
    return success();
  auto type = cast<RankedTensorType>(getType());
  int64_t elements = 0;
  std::optional<MemoryKind> memory;
  for (auto member : getMembers().getAsRange<FlatSymbolRefAttr>()) {
    auto state =
        dyn_cast_or_null<StateOp>(tables.lookupSymbolIn(model, member));
    if (!state)
      return emitOpError("member ") << member << " is no state";
    if (state.getTensorType().getElementType() != type.getElementType())
      return emitOpError("member ") << member << " has element type "
                                    << state.getTensorType().getElementType()
                                    << ", the bucket " << type.getElementType();
    if (memory.value_or(state.getMemory()) != state.getMemory())
      return emitOpError("member ")
             << member << " is in memory of the kind "
             << stringifyMemoryKind(state.getMemory()) << ", others in "
             << stringifyMemoryKind(*memory);
    memory = state.getMemory();
    elements += paddedElements(state.getTensorType().getNumElements());
  }
  if (getStorage() &&
      (getElements() ? *getElements() : type.getNumElements()) >=
          static_cast<uint64_t>(elements))
    return success();
  if (elements != type.getNumElements())
    return emitOpError("has ")
           << type.getNumElements() << " elements, its members with padding "
           << elements;
  return success();
}

/// The type of the state or bucket with the symbol `name`; null if there is
/// none.
static Type lookupStateType(Operation *user, FlatSymbolRefAttr name,
                            SymbolTableCollection &tables) {
  auto model = user->getParentOfType<ModelOp>();
  Operation *symbol = model ? tables.lookupSymbolIn(model, name) : nullptr;
  if (auto state = dyn_cast_or_null<StateOp>(symbol))
    return state.getType();
  if (auto bucket = dyn_cast_or_null<BucketOp>(symbol))
    return bucket.getType();
  return {};
}

static LogicalResult verifyStateUse(Operation *user, FlatSymbolRefAttr name,
                                    Type type, bool slot,
                                    SymbolTableCollection &tables) {
  Type stored = lookupStateType(user, name, tables);
  if (!stored)
    return user->emitOpError("refers to unknown state ") << name;
  if (auto slots = dyn_cast<RankedTensorType>(stored);
      slot && slots && slots.getRank() > 0)
    stored = RankedTensorType::get(slots.getShape().drop_front(),
                                   slots.getElementType());
  if (stored != type)
    return user->emitOpError("has type ")
           << type << " but state " << name << " has type " << stored;
  return success();
}

LogicalResult GetOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyStateUse(*this, getStateAttr(), getValue().getType(),
                        bool(getSlot()), tables);
}

LogicalResult SetOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyStateUse(*this, getStateAttr(), getValue().getType(),
                        bool(getSlot()), tables);
}

/// Verifies that the flat tensor is as long as its members, each padded as in a
/// bucket, and has their element type.
static LogicalResult verifyFlat(Operation *op, Type flat, TypeRange members) {
  auto whole = cast<RankedTensorType>(flat);
  int64_t elements = 0;
  for (Type type : members) {
    auto member = cast<RankedTensorType>(type);
    if (member.getElementType() != whole.getElementType())
      return op->emitOpError("has a member of type ")
             << member << " in " << whole;
    elements += paddedElements(member.getNumElements());
  }
  if (whole.getRank() != 1 || whole.getNumElements() < elements)
    return op->emitOpError("has members of ")
           << elements << " elements with padding in " << whole;
  return success();
}

LogicalResult PackOp::verify() {
  return verifyFlat(*this, getFlat().getType(), getMembers().getTypes());
}

LogicalResult UnpackOp::verify() {
  return verifyFlat(*this, getFlat().getType(), getMembers().getTypes());
}

//===----------------------------------------------------------------------===//
// Functions and steps
//===----------------------------------------------------------------------===//

ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction<FuncOp>(parser, result);
}

void FuncOp::print(OpAsmPrinter &printer) { printFunction(printer, *this); }

void FuncOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                   FunctionType type) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addRegion();
}

/// Verifies that `ports` (descriptions of a program's inputs or outputs), if
/// present, has one entry for each value.
static LogicalResult verifyPorts(Operation *op, std::optional<ArrayAttr> ports,
                                 size_t count, StringRef what) {
  if (ports && ports->size() != count)
    return op->emitOpError("has ") << count << " " << what << "s but "
                                   << ports->size() << " ports for them";
  return success();
}

/// Verifies that the body has one block whose terminator returns values of the
/// function's result types.
template <typename OpT> static LogicalResult verifyReturns(OpT op) {
  if (!op.getBody().hasOneBlock())
    return op.emitOpError("must have a body of one block");
  auto terminator = op.getBody().front().empty()
                        ? ReturnOp()
                        : dyn_cast<ReturnOp>(op.getBody().front().back());
  if (!terminator)
    return op.emitOpError("must end in nn.return");
  if (terminator.getOperandTypes() != TypeRange(op.getResultTypes()))
    return terminator.emitOpError("returns ")
           << terminator.getOperandTypes() << " from a function of "
           << TypeRange(op.getResultTypes());
  return success();
}

LogicalResult FuncOp::verify() {
  if (failed(verifyPorts(*this, getInputs(), getArgumentTypes().size(),
                         "argument")) ||
      failed(
          verifyPorts(*this, getOutputs(), getResultTypes().size(), "result")))
    return failure();
  if (auto ties = getTies(); ties && ties->size() != getResultTypes().size())
    return emitOpError("has ties for ")
           << ties->size() << " results of " << getResultTypes().size();
  return verifyReturns(*this);
}

ParseResult StepOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction<StepOp>(parser, result);
}

void StepOp::print(OpAsmPrinter &printer) { printFunction(printer, *this); }

void StepOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                   ProgramKind kind, FunctionType type, ArrayAttr inputs,
                   ArrayAttr outputs) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addAttribute(getKindAttrName(state.name),
                     ProgramKindAttr::get(builder.getContext(), kind));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addAttribute(getInputsAttrName(state.name), inputs);
  state.addAttribute(getOutputsAttrName(state.name), outputs);
  state.addRegion();
}

LogicalResult StepOp::verify() {
  if (failed(verifyPorts(*this, getInputs(), getArgumentTypes().size(),
                         "argument")) ||
      failed(
          verifyPorts(*this, getOutputs(), getResultTypes().size(), "result")))
    return failure();
  return verifyReturns(*this);
}

void CallOp::build(OpBuilder &builder, OperationState &state, FuncOp callee,
                   ValueRange operands, StringAttr path,
                   RecomputeAttr recompute) {
  build(builder, state, callee.getResultTypes(), callee.getSymName(), operands,
        path, recompute, /*when=*/FlatSymbolRefAttr(),
        /*passes=*/DenseI64ArrayAttr(), /*arg_attrs=*/ArrayAttr(),
        /*res_attrs=*/ArrayAttr());
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto model = (*this)->getParentOfType<ModelOp>();
  auto callee = dyn_cast_or_null<FuncOp>(
      model ? tables.lookupSymbolIn(model, getCalleeAttr()) : nullptr);
  if (!callee)
    return emitOpError("calls unknown function ") << getCalleeAttr();
  if (TypeRange(callee.getArgumentTypes()) != getOperandTypes())
    return emitOpError("passes ")
           << getOperandTypes() << " to " << getCalleeAttr() << ", which takes "
           << TypeRange(callee.getArgumentTypes());
  if (TypeRange(callee.getResultTypes()) != getResultTypes())
    return emitOpError("expects ")
           << getResultTypes() << " from " << getCalleeAttr()
           << ", which gives " << TypeRange(callee.getResultTypes());
  return verifyCondition(tables);
}

//===----------------------------------------------------------------------===//
// Micro-batches
//===----------------------------------------------------------------------===//

LogicalResult MicroBatchesOp::verify() {
  if (getCount() < 1)
    return emitOpError("runs ") << getCount() << " times; at least 1";
  Block &block = getBody().front();
  if (block.getNumArguments() != 1 || !block.getArgument(0).getType().isIndex())
    return emitOpError("needs one argument of type index");
  auto end =
      dyn_cast_or_null<ReturnOp>(block.empty() ? nullptr : &block.back());
  if (!end || end.getNumOperands() != 0)
    return emitOpError("must end in nn.return without values");
  return success();
}

LogicalResult MicroBatchOp::verify() {
  auto whole = cast<RankedTensorType>(getInput().getType());
  auto part = cast<RankedTensorType>(getOutput().getType());
  if (whole.getRank() == 0 ||
      whole.getShape().drop_front() != part.getShape() ||
      whole.getElementType() != part.getElementType())
    return emitOpError("gives ")
           << part << ", but a slice of " << whole
           << " along its first dimension has its other dimensions";
  // The index selects a micro-batch's slice of a whole batch. It must be the
  // induction variable of a loop over micro-batches. A loop that runs over only
  // the last micro-batches counts from 0. For such a loop the index is the sum
  // of the induction variable and a constant, the number of earlier
  // micro-batches.
  Value number = getIndex();
  int64_t first = 0;
  if (auto sum = number.getDefiningOp<arith::AddIOp>())
    if (std::optional<int64_t> constant = getConstantIntValue(sum.getRhs())) {
      first = *constant;
      number = sum.getLhs();
    }
  auto index = dyn_cast<BlockArgument>(number);
  if (!index || index.getArgNumber() != 0 ||
      isa<FunctionOpInterface>(index.getOwner()->getParentOp()))
    return emitOpError("is given an index that is no micro-batch's number");
  auto loop = dyn_cast<MicroBatchesOp>(index.getOwner()->getParentOp());
  if (!loop)
    return success();
  int64_t count = 0, before = 0;
  for (auto other : loop->getBlock()->getOps<MicroBatchesOp>()) {
    before += other->isBeforeInBlock(loop) ? other.getCount() : 0;
    count += other.getCount();
  }
  if (count != whole.getDimSize(0))
    return emitOpError("takes one of ")
           << whole.getDimSize(0) << " micro-batches in a loop over " << count;
  if (first != before)
    return emitOpError("takes micro-batches from number ")
           << first << " on, and the loops before have " << before;
  return success();
}
