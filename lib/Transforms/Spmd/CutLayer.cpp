//===- CutLayer.cpp - Splits a layer at some operations -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CutLayer.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;

/// Whether an operation only computes an index, such as a constant or the
/// rank's index. A new function contains a copy of such an operation, so that
/// the index need not be passed as an argument.
static bool isScalar(Operation *op) {
  return op->getNumRegions() == 0 && isMemoryEffectFree(op) &&
         llvm::none_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>);
}

/// Collects the values that are defined outside of `op` and used by `op` or by
/// an operation in its regions.
static void collectUsed(Operation *op, llvm::SetVector<Value> &used) {
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (!op->isAncestor(operand.getParentRegion()->getParentOp()))
        used.insert(operand);
  });
}

/// For each value that the layer returns: what it is if the layer is skipped.
/// Values that only skipped calls use are left out.
static DenseMap<Value, int64_t> passedResults(nn::FuncOp layer,
                                              ArrayRef<int64_t> passes) {
  DenseMap<Value, int64_t> results;
  Operation *end = layer.getBody().front().getTerminator();
  for (auto [number, passed] : llvm::enumerate(passes))
    if (passed != nn::CallOp::passesNothing)
      results[end->getOperand(number)] = passed;
  return results;
}

namespace {

/// Makes a function from adjacent operations of a layer.
class PieceWriter {
public:
  PieceWriter(nn::FuncOp layer, ArrayRef<Operation *> ops,
              const DenseMap<Value, int64_t> &passed)
      : layer(layer), ops(ops), passed(passed), mine(ops.begin(), ops.end()) {}

  LayerStep write(StringRef name, SymbolTable &symbols) {
    LayerStep step;
    for (Operation *op : ops)
      takeInputs(op);
    for (Operation *op : ops)
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) {
              return !mine.contains(
                  layer.getBody().front().findAncestorOpInBlock(*user));
            }))
          step.outputs.push_back(result);
    for (Value output : step.outputs)
      step.passes.push_back(passedBy(output));
    step.inputs = inputs.takeVector();
    OpBuilder builder(layer);
    step.piece = builder.create<nn::FuncOp>(
        layer.getLoc(), name,
        builder.getFunctionType(ValueRange(step.inputs).getTypes(),
                                ValueRange(step.outputs).getTypes()));
    symbols.insert(step.piece);
    SmallVector<Location> places(step.inputs.size(), layer.getLoc());
    Block *body = builder.createBlock(
        &step.piece.getBody(), {}, ValueRange(step.inputs).getTypes(), places);
    mapping.map(step.inputs, body->getArguments());
    for (Operation *op : ops) {
      makeScalars(op, builder);
      builder.clone(*op, mapping);
    }
    SmallVector<Value> results;
    for (Value output : step.outputs)
      results.push_back(mapping.lookup(output));
    builder.create<nn::ReturnOp>(layer.getLoc(), results);
    return step;
  }

private:
  void takeInputs(Operation *op) {
    llvm::SetVector<Value> used;
    collectUsed(op, used);
    for (Value value : used) {
      Operation *made = value.getDefiningOp();
      if (made && isScalar(made))
        takeInputs(made);
      else if (!made || !mine.contains(made))
        inputs.insert(value);
    }
  }

  /// What an output of the function is if a call of the function is skipped. If
  /// that is an argument of the layer, the function takes it, too.
  int64_t passedBy(Value output) {
    auto found = passed.find(output);
    if (found == passed.end())
      return nn::CallOp::passesNothing;
    if (found->second < 0)
      return found->second;
    Value argument = layer.getArgument(found->second);
    inputs.insert(argument);
    return llvm::find(inputs, argument) - inputs.begin();
  }

  void makeScalars(Operation *op, OpBuilder &builder) {
    llvm::SetVector<Value> used;
    collectUsed(op, used);
    for (Value value : used)
      if (Operation *made = value.getDefiningOp();
          made && isScalar(made) && !mapping.contains(value)) {
        makeScalars(made, builder);
        builder.clone(*made, mapping);
      }
  }

  nn::FuncOp layer;
  ArrayRef<Operation *> ops;
  const DenseMap<Value, int64_t> &passed;
  llvm::SmallPtrSet<Operation *, 16> mine;
  llvm::SetVector<Value> inputs;
  IRMapping mapping;
};

} // namespace

SmallVector<LayerStep> heddle::spmd::cutLayer(nn::FuncOp layer,
                                              ArrayRef<Operation *> products,
                                              ArrayRef<int64_t> passes,
                                              SymbolTable &symbols) {
  DenseMap<Value, int64_t> passed = passedResults(layer, passes);
  SmallVector<LayerStep> steps;
  SmallVector<Operation *> ops;
  auto finish = [&] {
    if (!ops.empty())
      steps.push_back(
          PieceWriter(layer, ops, passed)
              .write((layer.getSymName() + "." + Twine(steps.size())).str(),
                     symbols));
    ops.clear();
  };
  for (Operation &op : layer.getBody().front().without_terminator()) {
    if (llvm::is_contained(products, &op)) {
      finish();
      steps.emplace_back();
      steps.back().product = &op;
    } else if (!isScalar(&op)) {
      ops.push_back(&op);
    }
  }
  finish();
  return steps;
}
