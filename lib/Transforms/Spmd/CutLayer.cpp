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

namespace {

/// Makes a function from adjacent operations of a layer.
class PieceWriter {
public:
  PieceWriter(nn::FuncOp layer, ArrayRef<Operation *> ops)
      : layer(layer), ops(ops), mine(ops.begin(), ops.end()) {}

  LayerStep write(StringRef name, SymbolTable &symbols) {
    LayerStep step;
    for (Operation *op : ops)
      takeInputs(op);
    step.inputs = inputs.takeVector();
    for (Operation *op : ops)
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) {
              return !mine.contains(
                  layer.getBody().front().findAncestorOpInBlock(*user));
            }))
          step.outputs.push_back(result);
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
  llvm::SmallPtrSet<Operation *, 16> mine;
  llvm::SetVector<Value> inputs;
  IRMapping mapping;
};

} // namespace

SmallVector<LayerStep> heddle::spmd::cutLayer(nn::FuncOp layer,
                                              ArrayRef<Operation *> products,
                                              SymbolTable &symbols) {
  SmallVector<LayerStep> steps;
  SmallVector<Operation *> ops;
  auto finish = [&] {
    if (!ops.empty())
      steps.push_back(
          PieceWriter(layer, ops)
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
