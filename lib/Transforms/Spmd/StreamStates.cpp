//===- StreamStates.cpp - Updates offloaded states by tiles ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `spmd-stream-states`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "Slices.h"
#include "StateTiles.h"
#include "dialects/Dist/ByteSize.h"
#include "dialects/Pipe/PipeDialect.h"
#include "heddle/Transforms/Common/HostValues.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Spmd/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"
#include <deque>
#include <numeric>

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_SPMDSTREAMSTATES
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

RankedTensorType tileType(Value flat, int64_t elements) {
  return cast<RankedTensorType>(flat.getType()).clone({elements});
}

/// An operation that is computed in tiles. It is an optimizer update, an
/// element-wise operation that computes an operand of an update, or a sum of
/// squares.
struct Streamed {
  Operation *op;
  int64_t elements = 0; ///< The number of elements of each flat operand.
  /// The number of elements of an operand from which one element of a result is
  /// computed. For a sum of squares it is the number of squares that are added,
  /// otherwise 1.
  int64_t unit = 1;
  /// `sources` has for each operand the offloaded state from which its tiles
  /// are fetched, or null if the operand is in the device's memory. `parts` has
  /// the tiles of those operands that are in the device's memory.
  SmallVector<FlatSymbolRefAttr> sources;
  SmallVector<SmallVector<Value>> parts;
  /// `targets` has for each result its write to an offloaded state, or null if
  /// there is none. Stores of tiles replace this write. `results` has the tiles
  /// of each result.
  SmallVector<nn::SetOp> targets;
  SmallVector<SmallVector<Value>> results;
};

/// One tile of an operation.
struct StateTile {
  Streamed *update;
  int64_t number, first, elements;
  /// The fetch of each operand's tile; null if the operand is not offloaded.
  SmallVector<dist::FetchOp> fetches;
};

/// Replaces the optimizer's updates in an MLIR block by updates of tiles. If an
/// update reads a state that an earlier update stores, this update and all
/// later ones are left unchanged: tiles are fetched ahead, so the state would
/// be fetched before it is stored.
class Streamer {
public:
  Streamer(Block &block, const SymbolTable &symbols, size_t ahead)
      : symbols(symbols), ahead(ahead), builder(block.getParent()) {
    llvm::StringSet<> stored;
    auto note = [&](StringRef name) {
      for (StringRef state : statesOf(symbols, name))
        stored.insert(state);
    };
    for (Operation &op : block) {
      if (auto store = dyn_cast<dist::StoreOp>(op); store && !updates.empty())
        note(store.getState());
      if (!isStreamed(&op))
        continue;
      Streamed update = describe(&op);
      if (readsOneOf(update, stored))
        break;
      for (nn::SetOp target : update.targets)
        if (target)
          note(target.getState());
      updates.push_back(std::move(update));
    }
  }

  /// Replaces the optimizer updates by updates of tiles with `size` elements,
  /// rounded up to pages. If `size` is 0, StateTiles.h chooses the size.
  /// Returns the number of tiles.
  size_t run(int64_t size) {
    if (updates.empty())
      return 0;
    int64_t total = 0;
    for (const Streamed &update : updates)
      total += update.elements;
    size = llvm::alignTo(spmd::tileElements(size, total), pageElements());
    for (Streamed &update : updates) {
      int64_t step = llvm::alignTo(size, update.unit);
      for (int64_t first = 0; first < update.elements; first += step)
        tiles.push_back({&update,
                         first / step,
                         first,
                         std::min(step, update.elements - first),
                         {}});
    }
    ahead = std::max(ahead, tilesOfLayer());
    startBefore(updates.front().op);
    for (size_t next = 0; next < ahead; ++next)
      fetch(next);
    for (auto [number, tile] : llvm::enumerate(tiles))
      update(tile, number);
    builder.create<dist::FlushOp>(updates.back().op->getLoc(), 0);
    for (Streamed &update : updates)
      replace(update);
    return tiles.size();
  }

private:
  /// Whether the operation has to be computed by tiles.
  bool isStreamed(Operation *op) {
    return (op->hasTrait<nn::Elementwise>() || isa<nn::SquareSumsOp>(op)) &&
           !isOfHost(op) &&
           (llvm::any_of(op->getOperands(),
                         [&](Value operand) { return isOffloaded(operand); }) ||
            llvm::any_of(op->getResults(),
                         [&](Value result) { return storeOf(result); }));
  }

  bool readsOneOf(const Streamed &update, const llvm::StringSet<> &states) {
    return llvm::any_of(update.sources, [&](FlatSymbolRefAttr source) {
      return source && llvm::any_of(statesOf(symbols, source.getValue()),
                                    [&](StringRef state) {
                                      return states.contains(state);
                                    });
    });
  }

  /// Whether the host computes the operation. It then reads its states directly
  /// in the host's memory.
  bool isOfHost(Operation *op) {
    auto update = dyn_cast<nn::UpdateOp>(op);
    return update && runsOnHost(update, symbols);
  }

  /// Whether the value is read from an offloaded state.
  bool isOffloaded(Value value) {
    auto get = value.getDefiningOp<nn::GetOp>();
    return get && memoryOf(symbols, get.getState()) != nn::MemoryKind::Device;
  }

  /// The write of a value to an offloaded state; null if there is none.
  nn::SetOp storeOf(Value value) {
    for (Operation *user : value.getUsers())
      if (auto set = dyn_cast<nn::SetOp>(user))
        if (memoryOf(symbols, set.getState()) != nn::MemoryKind::Device)
          return set;
    return {};
  }

  /// Returns the number of elements in a page of direct I/O, for the narrowest
  /// element type among the transferred values.
  int64_t pageElements() {
    int64_t elements = 0;
    auto add = [&](StringRef state) {
      Type type =
          symbols.lookup(state)->getAttrOfType<TypeAttr>("type").getValue();
      elements =
          std::max(elements, spmd::pageBytes /
                                 dist::byteSize(getElementTypeOrSelf(type)));
    };
    for (Streamed &update : updates) {
      for (FlatSymbolRefAttr source : update.sources)
        if (source)
          add(source.getValue());
      for (nn::SetOp target : update.targets)
        if (target)
          add(target.getState());
    }
    return elements;
  }

  /// Sets the insertion point for the first fetches. For optimizer updates
  /// after the backward pass it is before the computation of the gradient norm,
  /// because the memory of activations is free by then. For updates during the
  /// backward pass it is before the layer that precedes the update.
  void startBefore(Operation *update) {
    builder.setInsertionPoint(update);
    for (Operation *op = update; (op = op->getPrevNode());) {
      // The insertion point must not be before the loops. Pipeline stages store
      // accumulated gradients after their loop, so it must be after these
      // stores, too.
      if (isa<nn::MicroBatchesOp, pipe::FragmentsOp, dist::FlushOp>(op))
        return builder.setInsertionPointAfter(op);
      if (isa<nn::CallOp>(op))
        return builder.setInsertionPoint(op);
    }
  }

  /// The largest number of tiles that are updated between two layers. All of
  /// them are fetched while the first of these layers runs, and stored while
  /// the second one runs.
  size_t tilesOfLayer() const {
    size_t most = 0, count = 0;
    for (auto [number, tile] : llvm::enumerate(tiles)) {
      ++count;
      Operation *next =
          number + 1 < tiles.size() ? tiles[number + 1].update->op : nullptr;
      for (Operation *op = tile.update->op; op && op != next;
           op = op->getNextNode())
        if (isa<nn::CallOp>(op)) {
          most = std::max(most, count);
          count = 0;
          break;
        }
    }
    return most;
  }

  Streamed describe(Operation *op) {
    Streamed update;
    update.op = op;
    update.elements = elementsOf(op->getResult(0).getType());
    if (auto sums = dyn_cast<nn::SquareSumsOp>(op)) {
      update.elements = elementsOf(sums.getInput().getType());
      update.unit = nn::SquareSumsOp::blockSize;
    }
    for (Value operand : op->getOperands())
      update.sources.push_back(
          isOffloaded(operand)
              ? operand.getDefiningOp<nn::GetOp>().getStateAttr()
              : FlatSymbolRefAttr());
    update.parts.resize(op->getNumOperands());
    for (Value result : op->getResults())
      update.targets.push_back(storeOf(result));
    update.results.resize(op->getNumResults());
    return update;
  }

  void fetch(size_t number) {
    if (number >= tiles.size())
      return;
    StateTile &tile = tiles[number];
    Streamed &update = *tile.update;
    for (auto [operand, source] :
         llvm::zip(update.op->getOperands(), update.sources))
      tile.fetches.push_back(
          source ? builder.create<dist::FetchOp>(
                       update.op->getLoc(), tileType(operand, tile.elements),
                       source.getValue(), tile.first, /*pending=*/true)
                 : dist::FetchOp());
  }

  /// The tiles of `flat`, a value in the device's memory.
  SmallVector<Value> tilesOf(Streamed &update, Value flat) {
    SmallVector<int64_t> sizes;
    for (const StateTile &tile : tiles)
      if (tile.update == &update)
        sizes.push_back(tile.elements);
    return spmd::cutFlat(builder, update.op->getLoc(), flat, sizes);
  }

  /// Returns operand `number` of the optimizer update of one tile.
  Value operandOf(const StateTile &tile, unsigned number) {
    Streamed &update = *tile.update;
    Value operand = update.op->getOperand(number);
    if (dist::FetchOp fetch = tile.fetches[number])
      return builder.create<dist::WaitOp>(update.op->getLoc(), fetch.getType(),
                                          fetch.getOutput());
    // Scalars, for example the learning rate, have no tiles.
    if (cast<RankedTensorType>(operand.getType()).getRank() == 0)
      return operand;
    if (tile.number == 0)
      update.parts[number] = tilesOf(update, operand);
    return update.parts[number][tile.number];
  }

  void update(StateTile &tile, size_t number) {
    Streamed &update = *tile.update;
    builder.setInsertionPoint(update.op);
    IRMapping mapping;
    for (OpOperand &operand : update.op->getOpOperands()) {
      Value part = operandOf(tile, operand.getOperandNumber());
      mapping.map(operand.get(), part);
    }
    Operation *part = builder.clone(*update.op, mapping);
    stores.push_back(0);
    for (auto [result, target] :
         llvm::zip(part->getResults(), update.targets)) {
      result.setType(
          tileType(result, llvm::divideCeil(tile.elements, update.unit)));
      update.results[result.getResultNumber()].push_back(result);
      if (!target)
        continue;
      builder.create<dist::StoreOp>(target.getLoc(), target.getState(),
                                    tile.first, result);
      ++stores.back();
    }
    // Wait for earlier stores, so that their buffers can be reused.
    if (stores.back() > 0) {
      auto last = ArrayRef(stores).take_back(std::max<size_t>(ahead, 2) - 1);
      builder.create<dist::FlushOp>(
          update.op->getLoc(),
          std::accumulate(last.begin(), last.end(), int64_t(0)));
    }
    fetch(number + ahead);
  }

  /// Concatenates the results of all tiles. Flat tensors are joined by nn.pack,
  /// because each tile is padded like a tensor in a bucket. Sums of squares are
  /// joined without padding.
  Value join(const Streamed &update, Type type, ArrayRef<Value> parts) {
    if (parts.size() == 1)
      return parts.front();
    // A kernel on a GPU takes at most some hundred operands, so join the parts
    // in several steps.
    if (isa<nn::SquareSumsOp>(update.op))
      return spmd::concatOf(builder, llvm::to_vector(parts), 0, /*most=*/128);
    return builder.create<nn::PackOp>(update.op->getLoc(), type, parts);
  }

  /// Replaces the original operation's results by those of the tiles.
  void replace(Streamed &update) {
    builder.setInsertionPoint(update.op);
    for (auto [result, target, parts] :
         llvm::zip(update.op->getResults(), update.targets, update.results)) {
      if (target)
        target.erase();
      if (result.use_empty())
        continue;
      result.replaceAllUsesWith(join(update, result.getType(), parts));
    }
    llvm::SetVector<Operation *> gets;
    for (auto [operand, source] :
         llvm::zip(update.op->getOperands(), update.sources))
      if (source)
        gets.insert(operand.getDefiningOp());
    update.op->erase();
    for (Operation *get : gets)
      // If operations other than the erased update use the read of an offloaded
      // state, the read remains, and `spmd-verify` reports it.
      if (get->use_empty())
        get->erase();
  }

  const SymbolTable &symbols;
  size_t ahead;
  OpBuilder builder;
  std::deque<Streamed> updates;
  SmallVector<StateTile> tiles;
  SmallVector<int64_t> stores; ///< The number of stores of each tile so far.
};

struct StreamStates : heddle::impl::SpmdStreamStatesBase<StreamStates> {
  using Base::Base;

  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    SymbolTable symbols(model);
    int64_t size = model.getStrategy().getValue().subGroupSize;
    for (auto step : model.getOps<nn::StepOp>()) {
      llvm::SetVector<Block *> blocks;
      step.walk([&](Operation *op) {
        if (isa<nn::UpdateOp, nn::SquareSumsOp>(op))
          blocks.insert(op->getBlock());
      });
      for (Block *block : blocks)
        while (size_t count = Streamer(*block, symbols, ahead).run(size))
          numTiles += count;
    }
  }
};

} // namespace
