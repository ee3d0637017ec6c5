//===- Verify.cpp - What the import phase promises ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Import/Passes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_IMPORTVERIFY
#include "include/heddle/Transforms/Import/Passes.h.inc"
} // namespace heddle

// What fails here was written by hand: the importer's modules pass.
static constexpr llvm::StringLiteral code = "H0396: ";

/// The floating-point element type of a tensor, or null.
static FloatType floatElement(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast<FloatType>(tensor.getElementType()) : FloatType();
}

static LogicalResult verifyState(nn::StateOp state,
                                 const llvm::StringSet<> &read) {
  if (state.getRole() != "parameter")
    return state.emitError(code)
           << "the role \"" << state.getRole()
           << "\" belongs to a later phase; only parameters may stand here";
  if (!state.getTensorType().getElementType().isF32())
    return state.emitError(code) << "a parameter must be f32";
  if (!state.getSource() || !state.getSourceType() || !state.getInit())
    return state.emitError(code)
           << "a parameter needs source, source_type and init";
  if (!read.contains(state.getSymName()))
    return state.emitError(code) << "no function reads this parameter";
  return success();
}

/// Only forward operations, and these in f32.
static LogicalResult verifyOperation(Operation *op) {
  if (isa<nn::StepOp, nn::SetOp, nn::MicroBatchesOp>(op))
    return op->emitError(code) << "belongs to a later phase";
  auto differentiable = dyn_cast<nn::DifferentiableOpInterface>(op);
  if (differentiable && !op->hasTrait<nn::EndsForward>() &&
      !differentiable.getNotDifferentiableReason().empty())
    return op->emitError(code) << "is no forward operation: "
                               << differentiable.getNotDifferentiableReason();
  for (Type type : op->getResultTypes())
    if (FloatType element = floatElement(type); element && !element.isF32())
      return op->emitError(code)
             << "computes in " << element
             << "; precision is applied by the next phase, from the strategy";
  return success();
}

/// The rows and tokens that a program's ids must have.
static LogicalResult verifyIds(nn::FuncOp function, unsigned argument,
                               const dist::Strategy &strategy) {
  int64_t rows = function.getProgram() == "generate"
                     ? 1
                     : strategy.microBatch * strategy.data;
  auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[argument]);
  if (type && type.getShape() == ArrayRef<int64_t>{rows, strategy.seq} &&
      type.getElementType().isInteger(32))
    return success();
  return function.emitError(code)
         << "argument " << argument << " of the program \""
         << *function.getProgram() << "\" must be tensor<" << rows << "x"
         << strategy.seq << "xi32> (micro_batch and seq of the strategy), not "
         << function.getArgumentTypes()[argument];
}

/// Training and evaluation sum the result `losses`: f32, one for each token.
static LogicalResult verifyLosses(nn::FuncOp function) {
  unsigned found = 0;
  for (auto [name, type] :
       llvm::zip(function.getResultNamesAttr().getAsValueRange<StringAttr>(),
                 function.getResultTypes()))
    if (FloatType element = floatElement(type);
        name == "losses" && element && element.isF32())
      ++found;
  if (found == 1)
    return success();
  return function.emitError(code)
         << "the program \"" << *function.getProgram()
         << "\" must have one result \"losses\", a tensor of f32";
}

static LogicalResult verifyProgram(nn::FuncOp function,
                                   const dist::Strategy &strategy) {
  StringRef program = *function.getProgram();
  if (program != "train" && program != "eval" && program != "generate")
    return function.emitError(code) << "there is no program \"" << program
                                    << "\": train, eval or generate";
  ArrayAttr arguments = function.getArgNamesAttr();
  ArrayAttr results = function.getResultNamesAttr();
  if (!arguments || arguments.size() != function.getNumArguments() ||
      !results || results.size() != function.getNumResults())
    return function.emitError(code)
           << "a program needs one name for every argument and result";
  for (auto [index, name] :
       llvm::enumerate(arguments.getAsValueRange<StringAttr>())) {
    static constexpr StringRef known[] = {"ids", "labels", "rng", "micro_batch",
                                          "position"};
    if (!llvm::is_contained(known, name))
      return function.emitError(code)
             << "nothing fills the argument \"" << name << "\"";
    if ((name == "ids" || name == "labels") &&
        failed(verifyIds(function, index, strategy)))
      return failure();
  }
  return program == "generate" ? success() : verifyLosses(function);
}

namespace {

struct Verify : heddle::impl::ImportVerifyBase<Verify> {
  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>())
      if (failed(verify(model)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult verify(nn::ModelOp model) {
    const dist::Strategy &strategy = model.getStrategy().getValue();
    llvm::StringSet<> read, programs;
    WalkResult walk = model.walk([&](Operation *op) {
      if (auto get = dyn_cast<nn::GetOp>(op))
        read.insert(get.getState());
      return WalkResult(verifyOperation(op));
    });
    if (walk.wasInterrupted())
      return failure();
    for (auto state : model.getOps<nn::StateOp>())
      if (failed(verifyState(state, read)))
        return failure();
    for (auto function : model.getOps<nn::FuncOp>()) {
      if (!function.getProgram())
        continue;
      if (failed(verifyProgram(function, strategy)))
        return failure();
      if (!programs.insert(*function.getProgram()).second)
        return function.emitError(code)
               << "a second program \"" << *function.getProgram() << "\"";
    }
    if (programs.empty())
      return model.emitError(code) << "no function is marked as a program";
    return success();
  }
};

} // namespace
