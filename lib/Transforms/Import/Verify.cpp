//===- Verify.cpp - What the import phase promises ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Common/VerifyPass.h"
#include "heddle/Transforms/Import/Passes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_IMPORTVERIFY
#include "include/heddle/Transforms/Import/Passes.h.inc"
} // namespace heddle

// The code of errors that only a module written by hand can cause.
static constexpr llvm::StringLiteral code = "H0396: ";

/// The floating-point element type of a tensor, or null.
static FloatType floatElement(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast<FloatType>(tensor.getElementType()) : FloatType();
}

static LogicalResult verifyState(nn::StateOp state,
                                 const llvm::StringSet<> &read) {
  if (state.getRole() == nn::StateRole::Cache ||
      state.getRole() == nn::StateRole::Constant)
    return success();
  if (state.getRole() != nn::StateRole::Parameter)
    return state.emitError(code)
           << "the role " << nn::stringifyStateRole(state.getRole())
           << " belongs to a later phase; only parameters and caches may "
              "stand here";
  Type element = state.getTensorType().getElementType();
  if (!element.isF32() && (state.getTrainable() || !element.isInteger(32)))
    return state.emitError(code)
           << "a parameter must be f32, or i32 and not trainable";
  if (!state.getSource() || !state.getInit())
    return state.emitError(code) << "a parameter needs source and init";
  if (!read.contains(state.getSymName()))
    return state.emitError(code) << "no function reads this parameter";
  return success();
}

/// Checks that each element of a tensor in the weight files belongs to exactly
/// one state. Otherwise a checkpoint would not contain the element, or would
/// contain it twice.
static LogicalResult verifyCoverage(nn::ModelOp model) {
  weights::Coverage coverage;
  std::string name, error;
  for (auto state : model.getOps<nn::StateOp>())
    if (state.getRole() == nn::StateRole::Parameter &&
        !coverage.add(state.getSymName().str(),
                      state.getSourceAttr().getLayout(), error)) {
      InFlightDiagnostic wrong = state.emitError("H0357: ") << error;
      wrong.attachNote() << "help: read each part of a tensor into one state";
      return wrong;
    }
  if (coverage.isWhole(name, error))
    return success();
  InFlightDiagnostic wrong = model.lookupSymbol(name)->emitError("H0357: ")
                             << error;
  wrong.attachNote() << "help: give the rest of it a state, or a slice of one";
  return wrong;
}

/// Checks an operation of the forward pass. It must compute in f32, except that
/// a result which overwrites an operand, such as a cache, has the operand's
/// type. Other operations than those of the forward pass are errors.
static LogicalResult verifyOperation(Operation *op) {
  if (isa<nn::StepOp, nn::SetOp, nn::MicroBatchesOp>(op) && !writesCache(op))
    return op->emitError(code) << "belongs to a later phase";
  if (auto properties = dyn_cast<nn::PropertiesOpInterface>(op);
      properties && op->hasTrait<nn::InForward>() &&
      !properties.getTies().empty())
    return success();
  auto differentiable = dyn_cast<nn::DifferentiableOpInterface>(op);
  // A constant has no operands, so it needs no derivative.
  if (differentiable && !op->hasTrait<nn::InForward>() &&
      op->getNumOperands() > 0 &&
      !differentiable.getNotDifferentiableReason().empty())
    return op->emitError(code) << "is no forward operation: "
                               << differentiable.getNotDifferentiableReason();
  // A cache may have another type than f32, and these operations read, write
  // and pass caches.
  if (isa<nn::GetOp, nn::CallOp>(op))
    return success();
  for (Type type : op->getResultTypes())
    if (FloatType element = floatElement(type); element && !element.isF32())
      return op->emitError(code)
             << "computes in " << element
             << "; precision is applied by the next phase, from the strategy";
  return success();
}

/// Whether programs of this kind return losses.
static bool hasLoss(nn::ProgramKind kind) {
  return kind == nn::ProgramKind::Train || kind == nn::ProgramKind::Eval;
}

/// The type that the batch size and sequence length in `strategy` require for a
/// port (a program's input or output) with one element per row or per token.
static RankedTensorType typeOf(nn::PortAttr port, nn::ProgramKind program,
                               const dist::Strategy &strategy) {
  SmallVector<int64_t> shape = {program == nn::ProgramKind::Generate
                                    ? 1
                                    : strategy.microBatch * strategy.data};
  if (port.isOfTokens())
    shape.push_back(strategy.seq);
  Builder builder(port.getContext());
  Type element = port.getRole() == nn::PortRole::LabelWeights
                     ? Type(builder.getF32Type())
                     : Type(builder.getI32Type());
  return RankedTensorType::get(shape, element);
}

static LogicalResult verifyInput(nn::FuncOp function, unsigned argument,
                                 const dist::Strategy &strategy) {
  auto port = cast<nn::PortAttr>(function.getInputsAttr()[argument]);
  switch (port.getRole()) {
  case nn::PortRole::Rng:
  case nn::PortRole::MicroBatch:
  case nn::PortRole::Position:
  case nn::PortRole::Pages:
    return success();
  default:
    break;
  }
  if (!port.isOfBatch())
    return function.emitError(code)
           << "nothing fills the argument \"" << port.getKey() << "\"";
  if (!hasLoss(*function.getProgram()) &&
      function.getProgram() != nn::ProgramKind::Generate)
    return success(); // Programs that serve come in several sizes.
  RankedTensorType wanted = typeOf(port, *function.getProgram(), strategy);
  if (function.getArgumentTypes()[argument] == wanted)
    return success();
  return function.emitError(code)
         << "argument " << argument << " of the program \""
         << stringifyProgramKind(*function.getProgram()) << "\" must be "
         << wanted << " (micro_batch and seq of the strategy), not "
         << function.getArgumentTypes()[argument];
}

/// The types of the ports (inputs or outputs) whose role is `role`. `ports` has
/// all ports, and `types` has their types.
static SmallVector<RankedTensorType> typesOf(ArrayAttr ports, TypeRange types,
                                             nn::PortRole role) {
  SmallVector<RankedTensorType> result;
  for (auto [port, type] : llvm::zip(ports.getAsRange<nn::PortAttr>(), types))
    if (port.getRole() == role)
      result.push_back(dyn_cast<RankedTensorType>(type));
  return result;
}

/// Checks the results with the role `losses`, which training and evaluation add
/// up. Such a result must be f32 and have one element for each label. There
/// must be one input of labels for each such result, or one input for all.
static LogicalResult verifyLosses(nn::FuncOp function) {
  StringRef program = stringifyProgramKind(*function.getProgram());
  auto inputs = [&](nn::PortRole role) {
    return typesOf(function.getInputsAttr(), function.getArgumentTypes(), role);
  };
  auto losses = typesOf(function.getOutputsAttr(), function.getResultTypes(),
                        nn::PortRole::Losses);
  auto labels = inputs(nn::PortRole::Labels);
  size_t weights = inputs(nn::PortRole::LabelWeights).size();
  if (losses.empty())
    return function.emitError(code)
           << "the program \"" << program
           << "\" must have a result \"losses\", a tensor of f32";
  if (labels.empty() || (labels.size() > 1 && labels.size() != losses.size()) ||
      (weights > 1 && weights != labels.size()))
    return function.emitError(code)
           << "the program \"" << program << "\" has " << losses.size()
           << " losses, " << labels.size() << " labels and " << weights
           << " label_weights: each loss has its own, or all have the same";
  for (auto [number, type] : llvm::enumerate(losses)) {
    RankedTensorType of = labels[std::min(number, labels.size() - 1)];
    auto wanted = of.clone(Float32Type::get(function.getContext()));
    if (type != wanted)
      return function.emitError(code)
             << "the losses of the program \"" << program << "\" must be "
             << wanted << ", one for each label, not " << type;
  }
  return success();
}

static LogicalResult verifyProgram(nn::FuncOp function,
                                   const dist::Strategy &strategy) {
  if (!function.getInputs() || !function.getOutputs())
    return function.emitError(code)
           << "a program needs one port for every argument and result";
  for (unsigned argument = 0; argument < function.getNumArguments(); ++argument)
    if (failed(verifyInput(function, argument, strategy)))
      return failure();
  return hasLoss(*function.getProgram()) ? verifyLosses(function) : success();
}

namespace {

struct Verify : VerifyPass<heddle::impl::ImportVerifyBase, Verify> {
  LogicalResult verify(nn::ModelOp model) {
    const dist::Strategy &strategy = model.getStrategy().getValue();
    llvm::StringSet<> read;
    llvm::SmallDenseSet<nn::ProgramKind> programs;
    auto verifyOne = [&](Operation *op) {
      if (auto get = dyn_cast<nn::GetOp>(op))
        read.insert(get.getState());
      return verifyOperation(op);
    };
    if (failed(verifyEach<Operation *>(model, verifyOne)))
      return failure();
    for (auto state : model.getOps<nn::StateOp>())
      if (failed(verifyState(state, read)))
        return failure();
    if (failed(verifyCoverage(model)))
      return failure();
    for (auto function : model.getOps<nn::FuncOp>()) {
      if (!function.getProgram())
        continue;
      if (failed(verifyProgram(function, strategy)))
        return failure();
      bool isFirst = programs.insert(*function.getProgram()).second;
      if (!isFirst && hasLoss(*function.getProgram()) && !function.getPhase())
        return function.emitError(code)
               << "a second program \""
               << stringifyProgramKind(*function.getProgram()) << "\"";
    }
    if (programs.empty())
      return model.emitError(code) << "no function is marked as a program";
    return success();
  }
};

} // namespace
