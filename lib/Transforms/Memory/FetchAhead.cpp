//===- FetchAhead.cpp - Windows are fetched while there is room -----------===//
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
#include <vector>

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

namespace {

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

/// The windows of the updates of one block.
class Windows {
public:
  Windows(Block &block, const SymbolTable &symbols)
      : block(block), symbols(symbols) {
    llvm::MapVector<Operation *, Window> found;
    for (auto fetch : block.getOps<dist::FetchOp>())
      if (Operation *reader = readerOf(fetch))
        found[reader].fetches.push_back(fetch);
    for (auto &[reader, window] : found)
      if (llvm::any_of(window.fetches, [&](auto f) { return isOptimizers(f); }))
        windows.push_back(std::move(window));
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
      window.home = stayingAt(window.fetches.front());
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
  /// The launch that reads what is fetched ahead; null where something else
  /// does.
  Operation *readerOf(dist::FetchOp fetch) {
    if (!fetch.getPending() || fetch.getSlot() ||
        memoryOf(symbols, fetch.getState()) == nn::MemoryKind::Device)
      return nullptr;
    for (Operation *wait : fetch->getUsers())
      for (Operation *user : wait->getUsers())
        if (isa<planir::LaunchOp>(user) && user->getBlock() == &block)
          return user;
    return nullptr;
  }

  bool isOptimizers(dist::FetchOp fetch) {
    StringRef state = statesOf(symbols, fetch.getState()).front();
    return symbols.lookup<nn::StateOp>(state).getRole() ==
           nn::StateRole::Optimizer;
  }

  /// The next operation, from this one on, that is not moved.
  Operation *stayingAt(Operation *op) const {
    while (moved.contains(op))
      op = op->getNextNode();
    return op;
  }

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

  Block &block;
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

} // namespace

size_t heddle::memory::fetchAhead(nn::StepOp step, const SymbolTable &symbols,
                                  function_ref<bool()> fits) {
  SmallVector<Block *> blocks;
  step->walk([&](Block *block) { blocks.push_back(block); });
  size_t count = 0;
  for (Block *block : blocks)
    count += Windows(*block, symbols).run(fits);
  return count;
}
