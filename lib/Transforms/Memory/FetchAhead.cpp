//===- FetchAhead.cpp - What is elsewhere comes while there is room -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FetchAhead.h"
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

/// Layers that fetches go ahead at most: a disk that is further behind is the
/// bound of the step, and each number that is tried lays the frame out again.
constexpr size_t mostAhead = 8;

/// What one update reads at once of what is not in the device's memory.
struct Window {
  SmallVector<dist::FetchOp> fetches;
  /// The operation before which they stood, and the one that they must stay
  /// behind, or null; neither is moved.
  Operation *home = nullptr, *behind = nullptr;
};

/// The stores so far, in order, and which operation of a block each is in.
class Stores {
public:
  explicit Stores(const SymbolTable &symbols) : overlap(symbols) {}

  void note(const StateRun &run, Operation *op) {
    byName[run.name].push_back({run, op, count++});
  }
  /// The last one of bytes of the run, or null.
  Operation *lastOf(const StateRun &run) {
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
    StateRun run;
    Operation *op;
    int64_t number; ///< Among all.
  };

  RunOverlaps overlap;
  llvm::StringMap<std::vector<Entry>> byName;
  int64_t count = 0;
};

} // namespace

/// The next operation, from this one on, that is not among those `moved`.
template <typename Moved>
static Operation *stayingAt(Operation *op, const Moved &moved) {
  while (moved.contains(op))
    op = op->getNextNode();
  return op;
}

/// The launch of a block that reads what is fetched ahead; null where something
/// else does.
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

/// Those of the updates of one block, in their order.
static SmallVector<Window> windowsOf(Block &block, const SymbolTable &symbols) {
  llvm::MapVector<Operation *, Window> found;
  for (auto fetch : block.getOps<dist::FetchOp>())
    if (Operation *reader = readerOf(fetch, symbols))
      found[reader].fetches.push_back(fetch);
  SmallVector<Window> windows;
  for (auto &[reader, window] : found)
    if (llvm::any_of(window.fetches, [&](dist::FetchOp fetch) {
          return roleOf(fetch, symbols) == nn::StateRole::Optimizer;
        }))
      windows.push_back(std::move(window));
  return windows;
}

namespace {

/// The windows of the updates of one block.
class Windows {
public:
  Windows(Block &block, const SymbolTable &symbols)
      : symbols(symbols), windows(windowsOf(block, symbols)) {
    for (Window &window : windows)
      moved.insert(window.fetches.begin(), window.fetches.end());
    if (windows.empty())
      return;
    for (Operation &op : block)
      if (!moved.contains(&op)) {
        numbers[&op] = staying.size();
        staying.push_back(&op);
      }
    for (Window &window : windows)
      window.home = stayingAt(window.fetches.front(), moved);
    findConflicts();
    begin = beginOf(windows.front().home);
  }

  /// See fetchAhead.
  size_t run(function_ref<bool()> fits) {
    if (windows.empty() || !fits())
      return 0;
    size_t first = 0;
    while (first < windows.size() && windows[first].home == windows[0].home)
      ++first;
    atBegin = most(begin == windows[0].home ? 0 : first, [&](size_t count) {
      place(count, 0);
      return fits();
    });
    shift = most(windows.size() - 1, [&](size_t by) {
      place(atBegin, by);
      return fits();
    });
    place(atBegin, shift);
    return shift > 0 ? windows.size() : atBegin;
  }

private:
  /// Notes for each window the last operation before it that stores bytes of
  /// it.
  void findConflicts() {
    DenseMap<Operation *, SmallVector<Window *>> at;
    for (Window &window : windows)
      at[window.home].push_back(&window);
    Stores stores(symbols);
    for (Operation *op : staying) {
      for (Window *window : at.lookup(op))
        for (dist::FetchOp fetch : window->fetches) {
          Operation *last = stores.lastOf(runOf(fetch));
          if (last && (!window->behind ||
                       numbers.lookup(window->behind) < numbers.lookup(last)))
            window->behind = last;
        }
      op->walk([&](dist::StoreOp store) { stores.note(runOf(store), op); });
    }
  }

  /// Where the first windows may be fetched: what else is fetched and stored is
  /// not held up, and no loop is entered.
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

  /// The first `count` windows stand at the begin, each other one where the one
  /// `by` windows before it stood.
  void place(size_t count, size_t by) {
    for (auto [number, window] : llvm::enumerate(windows)) {
      Operation *at = number < count + by ? begin : windows[number - by].home;
      if (window.behind && numbers.lookup(at) <= numbers.lookup(window.behind))
        at = staying[numbers.lookup(window.behind) + 1];
      for (dist::FetchOp fetch : window.fetches)
        fetch->moveBefore(at);
    }
  }

  const SymbolTable &symbols;
  SmallVector<Window> windows;
  llvm::SmallPtrSet<Operation *, 16> moved; ///< Their fetches.
  /// What is not moved, in order. (The block's own order is lost with each
  /// move.)
  std::vector<Operation *> staying;
  DenseMap<Operation *, size_t> numbers;
  Operation *begin = nullptr;
  size_t atBegin = 0, shift = 0;
};

//===----------------------------------------------------------------------===//
// What layers read
//===----------------------------------------------------------------------===//

/// What is fetched while one layer runs, for those behind it.
struct Group {
  /// Each with the operation before which it stood.
  SmallVector<std::pair<dist::FetchOp, Operation *>> fetches;
  /// The layer, and the first operation before which they may stand, or null;
  /// neither is moved.
  Operation *layer = nullptr, *earliest = nullptr;
};

/// The fetches of one block that run beside its layers: of parameters, of
/// activations, and of gradients that are added to.
class Layers {
public:
  Layers(Block &block, const SymbolTable &symbols, nn::ModelOp model)
      : block(block), symbols(symbols),
        strategy(model.getStrategy().getValue()), overlap(symbols) {
    for (const Window &window : windowsOf(block, symbols))
      ofUpdates.insert(window.fetches.begin(), window.fetches.end());
    for (auto fetch : block.getOps<dist::FetchOp>()) {
      nn::CallOp layer = layerBeside(fetch);
      if (!layer)
        continue;
      if (groups.empty() || groups.back().layer != layer)
        groups.push_back({{}, layer, nullptr});
      groups.back().fetches.push_back({fetch, nullptr});
      moved[fetch] = groups.size() - 1;
    }
    for (Group &group : groups)
      for (auto &[fetch, home] : group.fetches)
        home = stayingAt(fetch, moved);
    findBounds();
  }

  /// See fetchAhead.
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

  /// The layer that runs until a fetch is waited for, or null.
  nn::CallOp layerBeside(dist::FetchOp fetch) const {
    if (!fetch.getPending() || ofUpdates.contains(fetch))
      return {};
    auto layer = nn::CallOp();
    for (Operation *op = fetch; op && !layer; op = op->getNextNode())
      layer = dyn_cast<nn::CallOp>(op);
    return layer && layer->isBeforeInBlock(waitOf(fetch)) ? layer
                                                          : nn::CallOp();
  }

  /// The last operation of the block that reads what was fetched.
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

  /// Of what is fetched, the elements that somebody reads: what else is on the
  /// same pages is not among them.
  StateRun readOf(dist::FetchOp fetch) const {
    StateRun run = runOf(fetch);
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

  /// No group may stand before who stores what it fetches; before who reads it
  /// for the last time, so that it is there once; nor before what is fetched
  /// for those behind it at once, as copies are done in their order.
  void findBounds() {
    SmallVector<std::pair<StateRun, Operation *>> stores, reads;
    Operation *before = nullptr; // Fetched, and not moved.
    for (Operation &op : block) {
      op.walk([&](dist::StoreOp store) {
        stores.push_back({runOf(store), &op});
      });
      auto found = moved.find(&op);
      if (found == moved.end()) {
        bool isOthers = isa<dist::FetchOp, dist::FetchRowsOp>(op);
        before = isOthers && !ofUpdates.contains(&op) ? &op : before;
        continue;
      }
      auto fetch = cast<dist::FetchOp>(op);
      Operation *behind = before;
      auto stayBehind = [&](Operation *other) {
        if (other && other->isBeforeInBlock(fetch) &&
            (!behind || behind->isBeforeInBlock(other)))
          behind = other;
      };
      StateRun run = runOf(fetch), read = readOf(fetch);
      for (const auto &[place, store] : stores)
        if (overlap(place, run))
          stayBehind(store);
      for (const auto &[place, reader] : reads)
        if (overlap(place, read))
          stayBehind(reader);
      if (Operation *slot =
              fetch.getSlot() ? fetch.getSlot().getDefiningOp() : nullptr)
        stayBehind(block.findAncestorOpInBlock(*slot));
      reads.push_back({read, lastReaderOf(fetch)});
      if (!behind)
        continue;
      Operation *&earliest = groups[found->second].earliest;
      Operation *next = stayingAt(behind->getNextNode(), moved);
      if (!earliest || earliest->isBeforeInBlock(next))
        earliest = next;
    }
  }

  /// Each group stands before the layer of the one that is `by` groups before
  /// it, none before one that it stood behind; or all where they stood.
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

  /// Whether the elements of parameters that are under way at once, and those
  /// that are there at once, are as few as the strategy says.
  bool isWithinLimits() const {
    constexpr int64_t noLimit = dist::Strategy::noLimit;
    if (strategy.maxLiveParameters == noLimit &&
        strategy.prefetchBucketSize == noLimit)
      return true;
    /// Of fetches that nobody has waited for, or that are read further on.
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
  llvm::SmallPtrSet<Operation *, 16> ofUpdates; ///< Windows: see above.
  SmallVector<Group> groups;
  llvm::DenseMap<Operation *, size_t> moved; ///< Their fetches.
  RunOverlaps overlap;
};

} // namespace

size_t heddle::memory::fetchAhead(nn::StepOp step, const SymbolTable &symbols,
                                  function_ref<bool()> fits) {
  SmallVector<Block *> blocks;
  step->walk([&](Block *block) { blocks.push_back(block); });
  auto model = step->getParentOfType<nn::ModelOp>();
  size_t count = 0;
  for (Block *block : blocks)
    count += Windows(*block, symbols).run(fits);
  for (Block *block : blocks)
    count += Layers(*block, symbols, model).run(fits);
  return count;
}
