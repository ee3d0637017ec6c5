//===- CarryStores.cpp - Leaves last stores to the next run ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CarryStores.h"
#include "Search.h"
#include "Storage.h"
#include "dialects/NN/Conditions.h"
#include "heddle/Transforms/Common/States.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

namespace {

/// Changes a step so that its last stores to offload files continue during the
/// next step. Adds dist.carry at the end of the step. Makes the first layers of
/// the step wait for the stores that the previous step left unfinished.
class Carrier {
public:
  Carrier(nn::StepOp step, const SymbolTable &symbols)
      : step(step), symbols(symbols), builder(step.getContext()) {
    if (!findStores())
      return;
    for (Operation *op = stores.front(); op; op = op->getNextNode())
      if (auto flush = dyn_cast<dist::FlushOp>(op))
        flushes.push_back({flush, static_cast<int64_t>(flush.getLeft())});
    findLayers();
  }

  /// See carryStores.
  size_t run(function_ref<bool()> fits) {
    if (stores.empty() || layers.empty() || !fits())
      return 0;
    size_t carried = most(stores.size(), [&](size_t count) {
      place(count);
      return fits();
    });
    place(carried);
    return carried;
  }

private:
  /// Finds the stores to files after the last layer, which may continue during
  /// the next step. Finds none if the last store is in a loop that runs several
  /// times. Finds none in a pipeline stage either, because every forward and
  /// backward pass of the next step would have to wait for these stores.
  bool findStores() {
    dist::StoreOp last;
    bool isStage = false;
    step->walk([&](Operation *op) {
      isStage |= isa<pipe::FragmentsOp>(op);
      if (auto store = dyn_cast<dist::StoreOp>(op))
        last = store;
    });
    if (!last || isStage)
      return false;
    if (!isAfterLayers(last))
      return false;
    auto loop = dyn_cast<nn::MicroBatchesOp>(last->getParentOp());
    if (loop ? loop.getCount() != 1 || loop->getParentOp() != step
             : last->getParentOp() != step)
      return false;
    Storage storage(cast<FunctionOpInterface>(step.getOperation()), symbols);
    for (Operation *op = last; op && !isa<nn::CallOp, nn::MicroBatchesOp>(op);
         op = op->getPrevNode()) {
      auto store = dyn_cast<dist::StoreOp>(op);
      if (!store)
        continue;
      if (nn::conditionOf(store) ||
          memoryOf(symbols, store.getState()) != nn::MemoryKind::File ||
          !isOfFrame(storage, store.getValue()))
        break;
      stores.push_back(store);
    }
    std::reverse(stores.begin(), stores.end());
    return !stores.empty();
  }

  /// Whether no call of a layer and no fetch comes after a store.
  bool isAfterLayers(Operation *store) {
    for (Operation *op = store; op != step; op = op->getParentOp())
      for (Operation *next = op; (next = next->getNextNode());)
        if (next->walk([](Operation *inner) {
                  return isa<nn::CallOp, dist::FetchOp, dist::FetchRowsOp>(
                             inner)
                             ? WalkResult::interrupt()
                             : WalkResult::advance();
                })
                .wasInterrupted())
          return false;
    return true;
  }

  /// Whether a stored value is in the temporary memory (frame) of the step
  /// itself. Only such a value may be stored during the next step: other memory
  /// may be overwritten between two steps, before the store has read it.
  static bool isOfFrame(Storage &storage, Value value) {
    const Root *root = &storage.rootOf(value);
    while (root->kind == Root::Kind::Part || root->kind == Root::Kind::Slice)
      root = &storage.all()[root->index];
    return root->kind == Root::Kind::Frame;
  }

  /// Finds the layers before the first store of the step. After each of these
  /// layers the step can wait for stores that the previous step left
  /// unfinished.
  void findLayers() {
    Block *block = &step.getBody().front();
    for (auto loop : block->getOps<nn::MicroBatchesOp>()) {
      block = &loop.getBody().front();
      break;
    }
    for (Operation &op : *block) {
      if (isa<dist::StoreOp>(op))
        break;
      if (isa<nn::CallOp>(op))
        layers.push_back(&op);
    }
  }

  /// Changes the step so that its last `count` stores continue during the next
  /// step.
  void place(size_t count) {
    for (Operation *op : placed)
      op->erase();
    placed.clear();
    auto first = stores.end() - count;
    for (auto [flush, left] : flushes) {
      Operation *op = flush;
      size_t before = std::count_if(first, stores.end(), [&](Operation *store) {
        return store->isBeforeInBlock(op);
      });
      flush.setLeft(std::max<int64_t>(left, before));
    }
    if (count == 0)
      return;
    Operation *end = stores.back();
    if (!flushes.empty() && end->isBeforeInBlock(flushes.back().first))
      end = flushes.back().first;
    builder.setInsertionPointAfter(end);
    placed.push_back(builder.create<dist::CarryOp>(end->getLoc(), count));
    // Distribute the waits for the stores evenly over the layers.
    size_t done = 0;
    for (auto [number, layer] : llvm::enumerate(layers)) {
      size_t next = llvm::divideCeil((number + 1) * count, layers.size());
      if (next == done)
        continue;
      done = next;
      builder.setInsertionPointAfter(layer);
      placed.push_back(
          builder.create<dist::SettleOp>(layer->getLoc(), count - done));
    }
  }

  nn::StepOp step;
  const SymbolTable &symbols;
  OpBuilder builder;
  SmallVector<Operation *> stores, layers;
  /// The waits (dist.flush) after the first store, each with a number: how many
  /// unfinished stores the wait allowed before this pass changed the wait.
  SmallVector<std::pair<dist::FlushOp, int64_t>> flushes;
  SmallVector<Operation *> placed;
};

} // namespace

size_t heddle::memory::carryStores(nn::StepOp step, const SymbolTable &symbols,
                                   function_ref<bool()> fits) {
  return Carrier(step, symbols).run(fits);
}
