//===- HostUpdates.cpp - Lets the host update its states ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `spmd-host-updates`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "Slices.h"
#include "StateTiles.h"
#include "UpdateCutter.h"
#include "dialects/Dist/ByteSize.h"
#include "heddle/Transforms/Common/HostValues.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Spmd/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include <deque>

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_SPMDHOSTUPDATES
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

bool isNumber(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank() == 0;
}

/// If the only use of a value is a write to a state on file, returns that
/// write; otherwise null.
nn::SetOp fileTargetOf(Value value, const SymbolTable &symbols) {
  if (!value.hasOneUse())
    return {};
  auto set = dyn_cast<nn::SetOp>(*value.user_begin());
  bool isFile =
      set && memoryOf(symbols, set.getState()) == nn::MemoryKind::File;
  return isFile ? set : nn::SetOp();
}

/// An optimizer update that the host computes, and the tiles of its flat
/// operands and results.
struct HostUpdate {
  nn::UpdateOp op;
  SmallVector<SmallVector<Value>> parts;   ///< For each operand, its tiles.
  SmallVector<SmallVector<Value>> results; ///< For each result, its tiles.
};

/// One tile of an optimizer update.
struct StateTile {
  HostUpdate *update;
  int64_t number, first, elements;
  /// For each operand, the result of its asynchronous move to the host. Null if
  /// the operand is not moved.
  SmallVector<Value> moved;
  nn::UpdateOp made;
};

/// A result of one tile's update. It is being moved back from the host to the
/// device.
struct Return {
  StateTile *tile;
  unsigned result;
  Value pending;
};

/// Replaces the optimizer updates that the host computes by updates of tiles,
/// in one MLIR block, and inserts the moves between device and host.
class Converter {
public:
  Converter(Block &block, const SymbolTable &symbols, size_t inFlight)
      : block(block), symbols(symbols), inFlight(inFlight),
        builder(block.getParent()) {}

  void add(nn::UpdateOp op) {
    updates.push_back({op, {}, {}});
    updates.back().parts.resize(op->getNumOperands());
    updates.back().results.resize(op->getNumResults());
  }

  /// Replaces the optimizer updates by updates of tiles with `size` elements.
  /// Returns the number of tiles.
  size_t run(int64_t size) {
    for (HostUpdate &update : updates)
      addTiles(update, size);
    StateTile *before = nullptr;
    for (StateTile &tile : tiles) {
      builder.setInsertionPoint(tile.update->op);
      start(tile);
      if (before)
        giveBack(*before);
      update(tile);
      before = &tile;
    }
    if (before)
      giveBack(*before);
    toEnd();
    receive(0);
    if (stored)
      builder.create<dist::FlushOp>(block.getParentOp()->getLoc(), 0);
    for (HostUpdate &update : updates)
      replace(update);
    return tiles.size();
  }

private:
  /// Whether an operation, or a user of its results, writes a scalar state
  /// while the old value of the state is still being moved to the host.
  bool writesNumber(Operation &op) const {
    auto set = dyn_cast<nn::SetOp>(op);
    if (!set)
      return llvm::any_of(op.getUsers(), [&](Operation *user) {
        return isa<nn::SetOp>(user) && writesNumber(*user);
      });
    return llvm::any_of(numbers, [&](const auto &entry) {
      auto get = entry.first.template getDefiningOp<nn::GetOp>();
      return get && get.getState() == set.getState();
    });
  }

  /// Sets the insertion point for the operations that wait for the last tiles
  /// to return to the device. If an operation overwrites memory that the host
  /// may still read, the insertion point is before this operation. Otherwise it
  /// is the end of the MLIR block.
  void toEnd() {
    for (Operation *op = updates.back().op->getNextNode(); op;
         op = op->getNextNode())
      if (writesNumber(*op))
        return builder.setInsertionPoint(op);
    if (block.mightHaveTerminator())
      builder.setInsertionPoint(block.getTerminator());
    else
      builder.setInsertionPointToEnd(&block);
  }

  void addTiles(HostUpdate &update, int64_t size) {
    int64_t whole = elementsOf(update.op.getParameter().getType());
    SmallVector<int64_t> sizes;
    for (int64_t first = 0; first < whole; first += size) {
      sizes.push_back(std::min(size, whole - first));
      tiles.push_back({&update, first / size, first, sizes.back(), {}, {}});
    }
    builder.setInsertionPoint(update.op);
    for (OpOperand &operand : update.op->getOpOperands())
      if (!isNumber(operand.get()))
        update.parts[operand.getOperandNumber()] = spmd::cutFlat(
            builder, operand.get().getLoc(), operand.get(), sizes);
  }

  Value move(Value value, bool toHost) {
    return builder.create<dist::MoveOp>(value.getLoc(), value.getType(), value,
                                        toHost, /*pending=*/true);
  }

  Value wait(Value pending) {
    return builder.create<dist::WaitOp>(pending.getLoc(), pending.getType(),
                                        pending);
  }

  /// Starts the moves of a tile's operands to the host. They overlap with the
  /// update of the previous tile.
  void start(StateTile &tile) {
    HostUpdate &update = *tile.update;
    for (OpOperand &operand : update.op->getOpOperands()) {
      Value pending;
      if (isNumber(operand.get())) {
        if (!numbers.contains(operand.get()))
          numbers[operand.get()] = wait(move(operand.get(), /*toHost=*/true));
      } else {
        Value part = update.parts[operand.getOperandNumber()][tile.number];
        if (!isOnHost(part, symbols))
          pending = move(part, /*toHost=*/true);
      }
      tile.moved.push_back(pending);
    }
  }

  void update(StateTile &tile) {
    receive(inFlight);
    HostUpdate &update = *tile.update;
    SmallVector<Value> operands;
    for (auto [number, operand] : llvm::enumerate(update.op->getOperands())) {
      if (isNumber(operand))
        operands.push_back(numbers.lookup(operand));
      else if (Value pending = tile.moved[number])
        operands.push_back(wait(pending));
      else
        operands.push_back(update.parts[number][tile.number]);
    }
    tile.made = cast<nn::UpdateOp>(builder.clone(*update.op));
    tile.made->setOperands(operands);
    for (auto [number, result] : llvm::enumerate(tile.made->getResults())) {
      auto type = cast<RankedTensorType>(result.getType());
      result.setType(type.clone({tile.elements}));
      update.results[number].push_back(result);
    }
  }

  /// Whether the result is written to a state in the device's memory.
  bool isOfDevice(Value result) {
    return llvm::any_of(result.getUsers(), [&](Operation *user) {
      auto set = dyn_cast<nn::SetOp>(user);
      return !set || !isHostMemory(memoryOf(symbols, set.getState()));
    });
  }

  /// Starts to move a tile's results to the device. Results that are not
  /// written to a state in the device's memory are not moved.
  void giveBack(StateTile &tile) {
    SmallVector<Return> &back = returns.emplace_back();
    for (OpResult result : tile.update->op->getResults()) {
      unsigned number = result.getResultNumber();
      if (isOfDevice(result))
        back.push_back({&tile, number,
                        move(tile.made->getResult(number),
                             /*toHost=*/false)});
    }
  }

  /// Waits for tiles that are moved to the device until at most the last `left`
  /// of them are pending. Also stores results that belong to states on file;
  /// these stores overlap with the next tile.
  void receive(size_t left) {
    for (; returns.size() > left; returns.pop_front()) {
      int64_t stores = 0;
      for (const auto &[tile, result, pending] : returns.front()) {
        Value there = wait(pending);
        tile->update->results[result][tile->number] = there;
        nn::SetOp target =
            fileTargetOf(tile->update->op->getResult(result), symbols);
        if (!target)
          continue;
        builder.create<dist::StoreOp>(target.getLoc(), target.getState(),
                                      tile->first, there);
        ++stores;
      }
      if (stores > 0)
        builder.create<dist::FlushOp>(block.getParentOp()->getLoc(), stores);
      stored |= stores > 0;
    }
  }

  /// Replaces the results of the original update by the results of its tiles.
  /// Moves the operations that write these results to states to after the last
  /// wait for a tile.
  void replace(HostUpdate &update) {
    for (Value result : update.op->getResults())
      if (nn::SetOp target = fileTargetOf(result, symbols))
        target.erase();
    llvm::SetVector<Operation *> writes;
    SmallVector<Value> values(update.op->getResults());
    for (size_t i = 0; i < values.size(); ++i)
      for (Operation *user : values[i].getUsers())
        if (writes.insert(user))
          llvm::append_range(values, user->getResults());
    for (auto [result, parts] :
         llvm::zip(update.op->getResults(), update.results)) {
      if (result.use_empty())
        continue;
      Value whole = parts.front();
      if (parts.size() > 1)
        whole = builder.create<nn::PackOp>(update.op.getLoc(), result.getType(),
                                           parts);
      result.replaceAllUsesWith(whole);
    }
    SmallVector<Operation *> sorted = writes.takeVector();
    llvm::sort(sorted, [](Operation *a, Operation *b) {
      return a->isBeforeInBlock(b);
    });
    for (Operation *op : sorted)
      op->moveBefore(&block, builder.getInsertionPoint());
    update.op->erase();
  }

  Block &block;
  const SymbolTable &symbols;
  size_t inFlight;
  OpBuilder builder;
  std::deque<HostUpdate> updates;
  std::deque<StateTile> tiles;
  /// For each tile that is not yet back on the device, its results; the oldest
  /// tile first.
  std::deque<SmallVector<Return>> returns;
  DenseMap<Value, Value> numbers; ///< For each scalar, its copy on the host.
  bool stored = false;            ///< Whether something was stored to a file.
};

struct HostUpdates : heddle::impl::SpmdHostUpdatesBase<HostUpdates> {
  using Base::Base;

  void runOnOperation() override {
    nn::ModelOp asked;
    int64_t possible = 0;
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      if (model.getStrategy().getValue().hostUpdates == 0)
        continue;
      possible += convert(model);
      asked = model;
    }
    if (!asked || possible > 0)
      return;
    auto warning = asked.emitWarning("--host-updates has no effect: the host "
                                     "can compute none of the updates");
    warning.attachNote() << "help: give --place optimizer=host; updates of "
                            "states on file are the device's";
  }

private:
  /// Whether the host can compute an optimizer update: at least one of its
  /// states is in the host's memory, none of the states that it reads is on
  /// file, and its results are only written to states or all-gathered.
  static bool isPossible(nn::UpdateOp update, const SymbolTable &symbols) {
    if (isNumber(update.getParameter()))
      return false;
    bool anyOnHost = false;
    for (Value operand : update->getOperands()) {
      auto get = operand.getDefiningOp<nn::GetOp>();
      if (!get || isNumber(operand))
        continue;
      nn::MemoryKind memory = memoryOf(symbols, get.getState());
      if (memory == nn::MemoryKind::File)
        return false;
      anyOnHost |= isHostMemory(memory);
    }
    SmallVector<Value> results(update->getResults());
    for (size_t i = 0; i < results.size(); ++i)
      for (Operation *user : results[i].getUsers()) {
        auto set = dyn_cast<nn::SetOp>(user);
        bool isOnFile =
            set && memoryOf(symbols, set.getState()) == nn::MemoryKind::File;
        if (!isa<nn::SetOp, dist::AllGatherOp, dist::WaitOp>(user) ||
            user->getBlock() != update->getBlock() ||
            (isOnFile && set != fileTargetOf(results[i], symbols)))
          return false;
        llvm::append_range(results, user->getResults());
      }
    return anyOnHost;
  }

  /// Returns the unit of a tile's size, in elements. Every tile's size must be
  /// a multiple of this unit, so that each tile of an updated state that is
  /// written to a file begins at a page of the file.
  static int64_t unitOf(ArrayRef<nn::UpdateOp> updates,
                        const SymbolTable &symbols) {
    int64_t unit = spmd::tileUnit;
    for (nn::UpdateOp update : updates)
      for (Value result : update->getResults())
        if (fileTargetOf(result, symbols))
          unit = std::max(
              unit, spmd::pageBytes /
                        dist::byteSize(getElementTypeOrSelf(result.getType())));
    return unit;
  }

  /// Chooses optimizer updates from the beginning of the list, with at most
  /// `most` elements together. The first update that would exceed this limit is
  /// split into updates of about `size` elements, and as many of these as fit
  /// are chosen too. An update with results on file is not split, because its
  /// parts would not begin at page boundaries.
  static SmallVector<nn::UpdateOp> choose(SmallVector<nn::UpdateOp> updates,
                                          double most, int64_t size,
                                          const SymbolTable &symbols,
                                          spmd::UpdateCutter cutter) {
    SmallVector<nn::UpdateOp> chosen;
    int64_t elements = 0;
    auto take = [&](nn::UpdateOp update) {
      int64_t more = elementsOf(update.getParameter().getType());
      if (static_cast<double>(elements + more) > most)
        return false;
      elements += more;
      chosen.push_back(update);
      return true;
    };
    for (nn::UpdateOp update : updates) {
      if (take(update))
        continue;
      if (spmd::writesOf(update) &&
          llvm::none_of(update->getResults(), [&](Value result) {
            return fileTargetOf(result, symbols);
          }))
        for (nn::UpdateOp run : cutter.cut(update, size))
          if (!take(run))
            break;
      break;
    }
    return chosen;
  }

  /// Moves optimizer updates to the host, as many as `--host-updates` asks for.
  /// Returns the number of all updates that the host is able to compute.
  int64_t convert(nn::ModelOp model) {
    int64_t count = 0;
    SymbolTable symbols(model);
    const dist::Strategy &strategy = model.getStrategy().getValue();
    for (auto step : model.getOps<nn::StepOp>()) {
      SmallVector<nn::UpdateOp> possible;
      int64_t total = 0;
      step.walk([&](nn::UpdateOp update) {
        if (!isPossible(update, symbols))
          return;
        possible.push_back(update);
        total += elementsOf(update.getParameter().getType());
      });
      count += static_cast<int64_t>(possible.size());
      int64_t size =
          llvm::alignTo(spmd::tileElements(strategy.subGroupSize, total),
                        unitOf(possible, symbols));
      llvm::MapVector<Block *, Converter> blocks;
      for (nn::UpdateOp update :
           choose(possible, static_cast<double>(total) * strategy.hostUpdates,
                  size, symbols, {step, symbols})) {
        Block *block = update->getBlock();
        blocks.try_emplace(block, *block, symbols, inFlight)
            .first->second.add(update);
      }
      for (auto &[block, converter] : blocks)
        numTiles += converter.run(size);
    }
    return count;
  }
};

} // namespace
