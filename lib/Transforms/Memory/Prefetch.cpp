//===- Prefetch.cpp - Starts fetches early --------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Prefetch.h"
#include "Layout.h"
#include "Search.h"
#include "dialects/Pipe/PipeDialect.h"
#include "dialects/Plan/PlanDialect.h"
#include "heddle/Transforms/Common/States.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringMap.h"
#include <list>
#include <vector>

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

namespace {

/// The largest number of layers by which a fetch moves ahead. If a transfer
/// from disk takes longer than eight layers, the disk limits the speed anyway.
/// The number is small because the step's memory is laid out again for each
/// number that is tried.
constexpr size_t mostAhead = 8;

/// The fetches that the optimizer update of one state tile waits for. A state
/// tile is a range of elements that is fetched and updated at a time.
struct TileFetches {
  SmallVector<dist::FetchOp> fetches;
  /// `home` is the operation before which the fetches were originally. If
  /// `after` is not null, the fetches must stay after it. Neither operation
  /// moves.
  Operation *home = nullptr, *after = nullptr;
};

/// The stores before the current operation of an MLIR block, in order. A store
/// may be nested in an operation of the block, such as a loop, so it is
/// recorded together with this operation.
class StoreHistory {
public:
  explicit StoreHistory(const SymbolTable &symbols) : overlap(symbols) {}

  void note(const StateRange &run, Operation *op) {
    byName[run.name].push_back({run, op, count++});
  }
  /// The last store that may write bytes of the range, or null.
  Operation *lastOf(const StateRange &run) {
    const Entry *last = nullptr;
    for (auto &entry : byName) {
      const std::vector<Entry> &stores = entry.second;
      auto found = stores.rend();
      if (entry.first() == run.name)
        found =
            std::find_if(stores.rbegin(), stores.rend(), [&](const Entry &one) {
              return overlap(one.run, run);
            });
      else if (overlap.share(stores.front().run.name, run.name))
        found = stores.rbegin();
      if (found != stores.rend() && (!last || last->number < found->number))
        last = &*found;
    }
    return last ? last->op : nullptr;
  }

private:
  struct Entry {
    StateRange run;
    Operation *op;
    /// The position of this store among all stores, by which stores are
    /// compared.
    int64_t number;
  };

  RangeOverlaps overlap;
  llvm::StringMap<std::vector<Entry>> byName;
  int64_t count = 0;
};

} // namespace

/// Returns the first operation, from `op` on, that is not in `moved`.
template <typename Moved>
static Operation *stayingAt(Operation *op, const Moved &moved) {
  while (moved.contains(op))
    op = op->getNextNode();
  return op;
}

/// Returns the launch that reads what a fetch transfers. Null if the launch is
/// in another MLIR block, or if the fetch is not asynchronous.
static Operation *readerOf(dist::FetchOp fetch, const SymbolTable &symbols) {
  if (!fetch.getPending() || fetch.getSlot() ||
      memoryOf(symbols, fetch.getState()) == nn::MemoryKind::Device)
    return nullptr;
  for (Operation *wait : fetch->getUsers())
    for (Operation *user : wait->getUsers())
      if (isa<planir::LaunchOp>(user) && user->getBlock() == fetch->getBlock())
        return user;
  return nullptr;
}

static nn::StateRole roleOf(dist::FetchOp fetch, const SymbolTable &symbols) {
  StringRef state = statesOf(symbols, fetch.getState()).front();
  return symbols.lookup<nn::StateOp>(state).getRole();
}

/// For each optimizer update of a state tile (a range of a state that one
/// update handles) in an MLIR block, in order: the fetches that the update
/// waits for.
static SmallVector<TileFetches> tilesOf(Block &block,
                                        const SymbolTable &symbols) {
  llvm::MapVector<Operation *, TileFetches> found;
  for (auto fetch : block.getOps<dist::FetchOp>())
    if (Operation *reader = readerOf(fetch, symbols))
      found[reader].fetches.push_back(fetch);
  SmallVector<TileFetches> tiles;
  for (auto &[reader, tile] : found)
    if (llvm::any_of(tile.fetches, [&](dist::FetchOp fetch) {
          return roleOf(fetch, symbols) == nn::StateRole::Optimizer;
        }))
      tiles.push_back(std::move(tile));
  return tiles;
}

namespace {

/// Moves the fetches that the optimizer updates of one MLIR block wait for: to
/// the beginning of the block, or to where the fetches of an earlier state tile
/// were.
class TilePrefetcher {
public:
  TilePrefetcher(Block &block, const SymbolTable &symbols)
      : symbols(symbols), tiles(tilesOf(block, symbols)) {
    for (TileFetches &tile : tiles)
      moved.insert(tile.fetches.begin(), tile.fetches.end());
    if (tiles.empty())
      return;
    for (Operation &op : block)
      if (!moved.contains(&op)) {
        numbers[&op] = staying.size();
        staying.push_back(&op);
      }
    for (TileFetches &tile : tiles)
      tile.home = stayingAt(tile.fetches.front(), moved);
    findConflicts();
    begin = beginOf(tiles.front().home);
  }

  /// See prefetch.
  size_t run(function_ref<bool()> fits) {
    if (tiles.empty() || !fits())
      return 0;
    size_t first = 0;
    while (first < tiles.size() && tiles[first].home == tiles[0].home)
      ++first;
    atBegin = most(begin == tiles[0].home ? 0 : first, [&](size_t count) {
      place(count, 0);
      return fits();
    });
    shift = most(tiles.size() - 1, [&](size_t by) {
      place(atBegin, by);
      return fits();
    });
    place(atBegin, shift);
    return shift > 0 ? tiles.size() : atBegin;
  }

private:
  /// Sets `after` of each tile to the last operation that stores bytes which
  /// the tile's fetches read later.
  void findConflicts() {
    DenseMap<Operation *, SmallVector<TileFetches *>> at;
    for (TileFetches &tile : tiles)
      at[tile.home].push_back(&tile);
    StoreHistory stores(symbols);
    for (Operation *op : staying) {
      for (TileFetches *tile : at.lookup(op))
        for (dist::FetchOp fetch : tile->fetches) {
          Operation *last = stores.lastOf(rangeOf(fetch));
          if (last && (!tile->after ||
                       numbers.lookup(tile->after) < numbers.lookup(last)))
            tile->after = last;
        }
      op->walk([&](dist::StoreOp store) { stores.note(rangeOf(store), op); });
    }
  }

  /// Returns the earliest position to which the fetches of the first tiles may
  /// move. They must not pass other fetches or stores: transfers run in order,
  /// so the other transfers would have to wait. They must not move into a loop
  /// either.
  Operation *beginOf(Operation *home) const {
    Operation *begin = home;
    for (Operation *op = home; (op = op->getPrevNode());) {
      auto movesOthers = op->walk([&](Operation *inner) {
        return isa<dist::FetchOp, dist::StoreOp>(inner) &&
                       !moved.contains(inner)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      });
      if (movesOthers.wasInterrupted())
        break;
      if (!moved.contains(op))
        begin = op;
      if (isa<nn::MicroBatchesOp, pipe::FragmentsOp>(op))
        break;
    }
    return begin;
  }

  /// Places the fetches of all tiles. Those of the first `count` tiles start at
  /// the beginning of the MLIR block. The fetches of each later tile i start
  /// where the fetches of tile i - `by` originally started.
  void place(size_t count, size_t by) {
    for (auto [number, tile] : llvm::enumerate(tiles)) {
      Operation *at = number < count + by ? begin : tiles[number - by].home;
      if (tile.after && numbers.lookup(at) <= numbers.lookup(tile.after))
        at = staying[numbers.lookup(tile.after) + 1];
      for (dist::FetchOp fetch : tile.fetches)
        fetch->moveBefore(at);
    }
  }

  const SymbolTable &symbols;
  SmallVector<TileFetches> tiles;
  llvm::SmallPtrSet<Operation *, 16> moved; ///< All fetches of `tiles`.
  /// The operations that do not move, in order. The list is kept because MLIR
  /// would number the operations of a block anew after each move.
  std::vector<Operation *> staying;
  DenseMap<Operation *, size_t> numbers;
  Operation *begin = nullptr;
  size_t atBegin = 0, shift = 0;
};

//===----------------------------------------------------------------------===//
// Fetches for layers
//===----------------------------------------------------------------------===//

/// The fetches of data for later layers that run while one layer is computed.
struct LayerFetches {
  /// Each fetch, with the operation before which it originally was.
  SmallVector<std::pair<dist::FetchOp, Operation *>> fetches;
  /// `layer` is the layer during which the fetches run. `earliest` is the first
  /// operation before which the fetches may start, or null if there is no
  /// limit. Neither operation moves.
  Operation *layer = nullptr, *earliest = nullptr;
};

/// Moves fetches ahead within one MLIR block. Each of them originally overlaps
/// with the computation of one layer, and then with that of an earlier layer.
/// They fetch parameters, activations, and gradients to which a layer adds.
class LayerPrefetcher {
public:
  LayerPrefetcher(Block &block, const SymbolTable &symbols, nn::ModelOp model)
      : block(block), symbols(symbols),
        strategy(model.getStrategy().getValue()), overlap(symbols) {
    for (const TileFetches &tile : tilesOf(block, symbols))
      ofUpdates.insert(tile.fetches.begin(), tile.fetches.end());
    for (auto fetch : block.getOps<dist::FetchOp>()) {
      nn::CallOp layer = layerBeside(fetch);
      if (!layer)
        continue;
      if (groups.empty() || groups.back().layer != layer)
        groups.push_back({{}, layer, nullptr});
      groups.back().fetches.push_back({fetch, nullptr});
      moved[fetch] = groups.size() - 1;
    }
    for (LayerFetches &group : groups)
      for (auto &[fetch, home] : group.fetches)
        home = stayingAt(fetch, moved);
    findBounds();
  }

  /// See prefetch.
  size_t run(function_ref<bool()> fits) {
    if (groups.size() < 2 || !fits())
      return 0;
    size_t by = most(std::min(groups.size() - 1, mostAhead), [&](size_t by) {
      place(by);
      return isWithinLimits() && fits();
    });
    place(by);
    return by > 0 ? groups.size() : 0;
  }

private:
  static dist::WaitOp waitOf(dist::FetchOp fetch) {
    return cast<dist::WaitOp>(*fetch->getUsers().begin());
  }

  /// The layer that runs between a fetch and its wait, or null.
  nn::CallOp layerBeside(dist::FetchOp fetch) const {
    if (!fetch.getPending() || ofUpdates.contains(fetch))
      return {};
    auto layer = nn::CallOp();
    for (Operation *op = fetch; op && !layer; op = op->getNextNode())
      layer = dyn_cast<nn::CallOp>(op);
    return layer && layer->isBeforeInBlock(waitOf(fetch)) ? layer
                                                          : nn::CallOp();
  }

  /// The last operation of the MLIR block that reads what was fetched.
  Operation *lastReaderOf(dist::FetchOp fetch) const {
    Operation *last = waitOf(fetch);
    SmallVector<Operation *> readers(last->getUsers());
    while (!readers.empty()) {
      Operation *reader = readers.pop_back_val();
      if (isa<nn::UnpackOp>(reader))
        llvm::append_range(readers, reader->getUsers());
      reader = block.findAncestorOpInBlock(*reader);
      if (last->isBeforeInBlock(reader))
        last = reader;
    }
    return last;
  }

  /// Returns the elements of the fetched range that operations read. The range
  /// may have more elements, because transfers cover whole pages.
  StateRange readOf(dist::FetchOp fetch) const {
    StateRange run = rangeOf(fetch);
    Value there = waitOf(fetch).getOutput();
    auto unpack = there.use_empty()
                      ? nn::UnpackOp()
                      : dyn_cast<nn::UnpackOp>(*there.user_begin());
    if (!unpack)
      return run;
    int64_t first = run.element;
    run.count = 0;
    for (Value member : unpack.getMembers()) {
      int64_t end = first + nn::paddedElements(elementsOf(member.getType()));
      if (!member.use_empty()) {
        run.element = run.count == 0 ? first : run.element;
        run.count = end - run.element;
      }
      first = end;
    }
    return run;
  }

  /// Finds the earliest position for each group of fetches, by three rules.
  /// - A fetch must come after a store to the same bytes, so that it reads the
  ///   new values.
  /// - A fetch must come after the last use of an earlier fetch of the same
  ///   bytes, so that memory holds only one copy.
  /// - A fetch must not move ahead of a fetch that does not move. Copies are
  ///   executed in order, so the moved fetch would delay the other one.
  void findBounds() {
    SmallVector<std::pair<StateRange, Operation *>> stores, reads;
    // The last of the fetches visited so far that do not move.
    Operation *before = nullptr;
    for (Operation &op : block) {
      op.walk([&](dist::StoreOp store) {
        stores.push_back({rangeOf(store), &op});
      });
      auto found = moved.find(&op);
      if (found == moved.end()) {
        bool isOthers = isa<dist::FetchOp, dist::FetchRowsOp>(op);
        before = isOthers && !ofUpdates.contains(&op) ? &op : before;
        continue;
      }
      auto fetch = cast<dist::FetchOp>(op);
      Operation *after = before;
      auto stayAfter = [&](Operation *other) {
        if (other && other->isBeforeInBlock(fetch) &&
            (!after || after->isBeforeInBlock(other)))
          after = other;
      };
      StateRange run = rangeOf(fetch), read = readOf(fetch);
      for (const auto &[place, store] : stores)
        if (overlap(place, run))
          stayAfter(store);
      for (const auto &[place, reader] : reads)
        if (overlap(place, read))
          stayAfter(reader);
      if (Operation *slot =
              fetch.getSlot() ? fetch.getSlot().getDefiningOp() : nullptr)
        stayAfter(block.findAncestorOpInBlock(*slot));
      reads.push_back({read, lastReaderOf(fetch)});
      if (!after)
        continue;
      Operation *&earliest = groups[found->second].earliest;
      Operation *next = stayingAt(after->getNextNode(), moved);
      if (!earliest || earliest->isBeforeInBlock(next))
        earliest = next;
    }
  }

  /// Moves the fetches of group i to before the layer of group i - `by`. They
  /// move neither before the group's own earliest position nor before the
  /// fetches of group i - 1. If `by` is 0, all fetches return to their original
  /// positions.
  void place(size_t by) {
    Operation *last = nullptr;
    for (auto [number, group] : llvm::enumerate(groups)) {
      Operation *at = groups[number < by ? 0 : number - by].layer;
      for (Operation *bound : {group.earliest, last})
        if (bound && at->isBeforeInBlock(bound))
          at = bound;
      last = at;
      for (auto [fetch, home] : group.fetches)
        fetch->moveBefore(by > 0 ? at : home);
    }
  }

  bool isParameter(dist::FetchOp fetch) const {
    nn::StateRole role = roleOf(fetch, symbols);
    return role == nn::StateRole::Parameter || role == nn::StateRole::Derived;
  }

  /// Whether the fetches respect the two limits that the user can set.
  /// `prefetchBucketSize` limits the elements of parameters that are being
  /// fetched at the same time. `maxLiveParameters` limits the elements of
  /// parameters that are in memory at the same time.
  bool isWithinLimits() const {
    constexpr int64_t noLimit = dist::Strategy::noLimit;
    if (strategy.maxLiveParameters == noLimit &&
        strategy.prefetchBucketSize == noLimit)
      return true;
    /// `underWay` has the fetches that are not waited for yet, and `live` has
    /// the fetches whose result is still read later. An entry has the number of
    /// fetched elements, and the operation until which they count: the wait for
    /// the fetch in `underWay`, the last reader of its result in `live`.
    std::list<std::pair<Operation *, int64_t>> underWay, live;
    auto sumAt = [](std::list<std::pair<Operation *, int64_t>> &fetched,
                    Operation *now) {
      int64_t sum = 0;
      fetched.remove_if(
          [&](const auto &one) { return one.first->isBeforeInBlock(now); });
      for (auto [until, elements] : fetched)
        sum += elements;
      return sum;
    };
    for (auto fetch : block.getOps<dist::FetchOp>()) {
      if (!fetch.getPending() || !isParameter(fetch))
        continue;
      int64_t elements = elementsOf(fetch.getType());
      underWay.push_back({waitOf(fetch), elements});
      live.push_back({lastReaderOf(fetch), elements});
      if (!moved.contains(fetch))
        continue;
      bool isTooMuch = sumAt(underWay, fetch) > strategy.prefetchBucketSize ||
                       (strategy.maxLiveParameters != noLimit &&
                        sumAt(live, fetch) > strategy.maxLiveParameters);
      if (isTooMuch)
        return false;
    }
    return true;
  }

  Block &block;
  const SymbolTable &symbols;
  const dist::Strategy &strategy;
  /// Fetches of state tiles. A state tile is a range of a state that one
  /// optimizer update handles. TilePrefetcher moves these fetches; this class
  /// does not.
  llvm::SmallPtrSet<Operation *, 16> ofUpdates;
  SmallVector<LayerFetches> groups;
  /// For each fetch, the index of its group (the fetches that run while one
  /// layer is computed).
  llvm::DenseMap<Operation *, size_t> moved;
  RangeOverlaps overlap;
};

} // namespace

size_t heddle::memory::prefetch(nn::StepOp step, const SymbolTable &symbols,
                                function_ref<bool()> fits) {
  SmallVector<Block *> blocks;
  step->walk([&](Block *block) { blocks.push_back(block); });
  auto model = step->getParentOfType<nn::ModelOp>();
  size_t count = 0;
  for (Block *block : blocks)
    count += TilePrefetcher(*block, symbols).run(fits);
  for (Block *block : blocks)
    count += LayerPrefetcher(*block, symbols, model).run(fits);
  return count;
}
