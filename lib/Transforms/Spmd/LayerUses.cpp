//===- LayerUses.cpp - Which layers use an activation ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LayerUses.h"
#include "Layers.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;

/// Whether the call `call` computes a later part of a layer, of which the call
/// `layer` computes the first part. The path of `call` then extends the path of
/// `layer`, as h.0.1 extends h.0.
static bool isPieceOf(nn::CallOp call, Operation *layer) {
  StringRef path = call.getPath();
  return path.consume_front(cast<nn::CallOp>(layer).getPath()) &&
         path.starts_with(".");
}

LayerUses::LayerUses(Block &block) : body(block) {
  for (Operation &op : block) {
    numBefore[&op] = static_cast<int64_t>(calls.size());
    if (auto call = dyn_cast<nn::CallOp>(op);
        call && (calls.empty() || !isPieceOf(call, calls.back())))
      calls.push_back(&op);
  }
}

SmallVector<Value> LayerUses::activations() const {
  llvm::StringSet<> seen;
  Operation *last = nullptr;
  for (Operation *layer : calls)
    if (seen.insert(cast<nn::CallOp>(layer).getPath()).second)
      last = layer;
  SmallVector<Value> values;
  llvm::DenseSet<Value> found;
  for (Operation &op : body) {
    if (!last || last->isBeforeInBlock(&op))
      break;
    // Collectives, slices and nn.pack pass values on. Their result is an
    // activation only if an operand is one. For example, a slice of a weight is
    // no activation.
    bool passesOn =
        isa<dist::DistDialect>(op.getDialect()) || isa<nn::PackOp>(op);
    // The rows that an embedding fetches are an activation, although its table
    // is a weight.
    if (isa<dist::FetchRowsOp>(op))
      found.insert(op.getResult(0));
    bool counts = passesOn ? llvm::any_of(op.getOperands(),
                                          [&](Value operand) {
                                            return found.contains(operand);
                                          })
                           : isa<nn::NNDialect>(op.getDialect()) &&
                                 !isa<nn::UnpackOp>(op) &&
                                 !op.hasTrait<nn::Rematerializable>();
    if (!counts)
      continue;
    for (Value result : op.getResults())
      if (isa<RankedTensorType>(result.getType()) && !op.hasAttr("pending") &&
          found.insert(result).second)
        values.push_back(result);
  }
  return values;
}

SmallVector<Operation *> LayerUses::users(Value value) const {
  SmallVector<Operation *> all;
  for (Operation *user : value.getUsers())
    if (Operation *here = body.findAncestorOpInBlock(*user);
        !llvm::is_contained(all, here))
      all.push_back(here);
  llvm::sort(all,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return all;
}

int64_t LayerUses::between(Operation *first, Operation *second) const {
  int64_t before = numBefore.lookup(first);
  bool isLayer =
      before < static_cast<int64_t>(calls.size()) && calls[before] == first;
  return numBefore.lookup(second) - before - (isLayer ? 1 : 0);
}

SmallVector<SmallVector<Operation *>> LayerUses::uses(Value value) const {
  SmallVector<SmallVector<Operation *>> near = {{value.getDefiningOp()}};
  for (Operation *user : users(value)) {
    if (between(near.back().back(), user) >= minLayersBetween)
      near.emplace_back();
    near.back().push_back(user);
  }
  return near;
}

Operation *LayerUses::layerBefore(Operation *op) const {
  int64_t before = numBefore.lookup(op);
  return before > 0 ? calls[before - 1] : nullptr;
}

void LayerUses::setBeforeUse(OpBuilder &builder, Operation *use,
                             Operation *made) const {
  if (Operation *before = layerBefore(use))
    builder.setInsertionPoint(before);
  else if (made)
    builder.setInsertionPointAfter(made);
  else
    builder.setInsertionPointToStart(&body);
}

SmallVector<Block *> heddle::spmd::waitingBlocks(nn::StepOp step) {
  if (step.getKind() != nn::ProgramKind::Train)
    return {};
  return llvm::to_vector(ArrayRef(blocksOf(step)).drop_front());
}

llvm::StringSet<> heddle::spmd::savedSlots(nn::ModelOp model) {
  llvm::StringSet<> saved;
  for (auto state : model.getOps<nn::StateOp>())
    if (state.getRole() == nn::StateRole::Saved)
      saved.insert(state.getSymName());
  model.walk([&](nn::GetOp get) {
    if (llvm::any_of(get->getUsers(), llvm::IsaPred<dist::SendOp>))
      saved.erase(get.getState());
  });
  return saved;
}
