//===- AdvanceUpdates.cpp - Updates as soon as the gradients are there ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UpdateRuns.h"
#include "Windows.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Spmd/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_SPMDADVANCEUPDATES
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

/// The updates behind the loop over micro-batches of a step, which has one
/// loop.
class Advancer {
public:
  Advancer(nn::ModelOp model, nn::StepOp step, nn::MicroBatchesOp loop)
      : step(step), loop(loop), body(&loop.getBody().front()), symbols(model),
        cutter(step, symbols) {
    body->walk([&](nn::SetOp set) { note(set, written); });
  }

  /// Runs of members have `size` elements, about. Returns how many updates were
  /// moved.
  size_t run(int64_t size) {
    SmallVector<nn::UpdateOp> updates;
    for (auto update :
         llvm::make_early_inc_range(step.getBody().getOps<nn::UpdateOp>()))
      if (mayMove(update))
        llvm::append_range(updates, cutter.cut(update, size));
    if (!updates.empty())
      splitLast();
    SmallVector<std::pair<Operation *, nn::UpdateOp>> places;
    for (nn::UpdateOp update : updates)
      if (Operation *place = lastUse(update))
        places.push_back({place, update});
    llvm::stable_sort(places, [](const auto &a, const auto &b) {
      return a.first != b.first && a.first->isBeforeInBlock(b.first);
    });
    DenseMap<Operation *, Operation *> ends;
    for (auto [place, update] : places) {
      Operation *&end = ends.try_emplace(place, place).first->second;
      end = move(update, end);
    }
    return places.size();
  }

private:
  void note(nn::SetOp set, llvm::StringSet<> &states) {
    for (StringRef state : statesOf(symbols, set.getState()))
      states.insert(state);
  }

  //===--------------------------------------------------------------------===//
  // Which updates are there early
  //===--------------------------------------------------------------------===//

  /// The read of a state, and what takes this rank's part of it; nothing where
  /// a value is made otherwise, as of gradients that are summed behind the
  /// loop.
  static SmallVector<Operation *> readOf(Value flat) {
    SmallVector<Operation *> ops;
    for (Operation *op = flat.getDefiningOp();
         op && isa<nn::GetOp, dist::SliceOp>(op);
         op = op->getOperand(0).getDefiningOp()) {
      ops.insert(ops.begin(), op);
      if (isa<nn::GetOp>(op))
        return ops;
    }
    return {};
  }

  bool isElsewhere(Value flat) {
    SmallVector<Operation *> read = readOf(flat);
    return !read.empty() &&
           memoryOf(symbols, cast<nn::GetOp>(read.front()).getState()) !=
               nn::MemoryKind::Device;
  }

  /// Whether a number could be there before the loop: it is, or is made of what
  /// is, and of states that nothing has written since.
  bool canPrecede(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || op->isBeforeInBlock(loop))
      return true;
    if (auto get = dyn_cast<nn::GetOp>(op))
      return !isRewritten(get, op) &&
             llvm::none_of(statesOf(symbols, get.getState()),
                           [&](StringRef s) { return written.contains(s); });
    return isMemoryEffectFree(op) &&
           llvm::all_of(op->getOperands(),
                        [&](Value operand) { return canPrecede(operand); });
  }

  /// Whether nothing but its own reads, behind the loop, sees what an update
  /// writes.
  bool isAlone(nn::UpdateOp update, ArrayRef<Operation *> writes) {
    llvm::StringSet<> states;
    for (Operation *op : writes)
      if (auto set = dyn_cast<nn::SetOp>(op))
        note(set, states);
    llvm::SmallDenseSet<Operation *> own;
    for (Value operand : update->getOperands())
      for (Operation *op : readOf(operand))
        own.insert(op);
    auto isOwn = [&](Operation *read) {
      return own.contains(read) &&
             llvm::all_of(read->getUsers(), [&](Operation *user) {
               return user == update || own.contains(user);
             });
    };
    for (Operation *op = loop->getNextNode(); op; op = op->getNextNode())
      if (auto get = dyn_cast<nn::GetOp>(op); get && !isOwn(op))
        for (StringRef state : statesOf(symbols, get.getState()))
          if (states.contains(state))
            return false;
    return true;
  }

  /// Whether something behind the loop, and before `op`, writes a state that
  /// it reads.
  bool isRewritten(nn::GetOp get, Operation *op) {
    llvm::StringSet<> since;
    for (Operation *other = loop; other != op; other = other->getNextNode())
      if (auto set = dyn_cast<nn::SetOp>(other))
        note(set, since);
    return llvm::any_of(statesOf(symbols, get.getState()),
                        [&](StringRef s) { return since.contains(s); });
  }

  bool mayMove(nn::UpdateOp update) {
    std::optional<SmallVector<Operation *>> writes = spmd::writesOf(update);
    if (!writes || !isAlone(update, *writes) ||
        isElsewhere(update.getGradient()) ||
        llvm::none_of(update.getStates(),
                      [&](Value state) { return isElsewhere(state); }))
      return false;
    return llvm::all_of(update->getOperands(), [&](Value operand) {
      if (cast<RankedTensorType>(operand.getType()).getRank() == 0)
        return canPrecede(operand);
      SmallVector<Operation *> read = readOf(operand);
      return !read.empty() &&
             !isRewritten(cast<nn::GetOp>(read.front()), update);
    });
  }

  //===--------------------------------------------------------------------===//
  // Where they go
  //===--------------------------------------------------------------------===//

  /// The last micro-batch gets a loop of its own, which is `loop` from here on:
  /// what all of them add up to is there in it.
  void splitLast() {
    int64_t others = loop.getCount() - 1;
    if (others == 0)
      return;
    OpBuilder builder(loop);
    cast<nn::MicroBatchesOp>(builder.clone(*loop)).setCount(others);
    loop.setCount(1);
    Location loc = loop.getLoc();
    Value index = body->getArgument(0);
    builder.setInsertionPointToStart(body);
    Value first = builder.create<arith::ConstantIndexOp>(loc, others);
    Value number = builder.create<arith::AddIOp>(loc, index, first);
    index.replaceAllUsesExcept(number, number.getDefiningOp());
  }

  /// The later of two operations in the loop's body; null is before all.
  Operation *later(Operation *a, Operation *b) const {
    b = body->findAncestorOpInBlock(*b);
    return !a || a->isBeforeInBlock(b) ? b : a;
  }

  /// The last operation that reads bytes of a value, and not before `last`.
  Operation *lastRead(Value value, Operation *last) {
    for (Operation *user : value.getUsers()) {
      last = later(last, user);
      bool isPart = isa<nn::UnpackOp, nn::PackOp, dist::SliceOp>(user);
      if (isPart || user->hasAttr("pending"))
        for (Value result : user->getResults())
          last = lastRead(result, last);
    }
    return last;
  }

  /// The last operation in the loop that writes the gradients that an update
  /// reads, or reads what it writes.
  Operation *lastUse(nn::UpdateOp update) {
    llvm::StringSet<> gradients, results;
    auto get = cast<nn::GetOp>(readOf(update.getGradient()).front());
    for (StringRef state : statesOf(symbols, get.getState()))
      gradients.insert(state);
    SmallVector<Operation *> writes = *spmd::writesOf(update);
    for (Operation *op : writes)
      if (auto set = dyn_cast<nn::SetOp>(op))
        note(set, results);
    auto isAmong = [&](StringRef name, const llvm::StringSet<> &states) {
      return llvm::any_of(statesOf(symbols, name), [&](StringRef state) {
        return states.contains(state);
      });
    };
    Operation *last = nullptr;
    for (Operation &op : *body) {
      if (auto set = dyn_cast<nn::SetOp>(op);
          set && isAmong(set.getState(), gradients))
        last = later(last, set);
      if (auto get = dyn_cast<nn::GetOp>(op);
          get && isAmong(get.getState(), results))
        last = lastRead(get.getValue(), later(last, get));
    }
    return last;
  }

  /// Moves what makes a number up to before the loop.
  void precede(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || op->isBeforeInBlock(loop))
      return;
    for (Value operand : op->getOperands())
      precede(operand);
    op->moveBefore(loop);
  }

  /// Moves an update, with what it reads and what writes its results, behind an
  /// operation of the loop. Returns the last of what was moved.
  Operation *move(nn::UpdateOp update, Operation *behind) {
    SmallVector<Operation *> writes = *spmd::writesOf(update);
    OpBuilder builder(update);
    auto put = [&](Operation *op) {
      op->moveAfter(behind);
      behind = op;
    };
    for (OpOperand &operand : update->getOpOperands()) {
      SmallVector<Operation *> read = readOf(operand.get());
      if (cast<RankedTensorType>(operand.get().getType()).getRank() == 0) {
        precede(operand.get());
        continue;
      }
      IRMapping mapping;
      for (Operation *op : read)
        put(builder.clone(*op, mapping));
      operand.set(behind->getResult(0));
      for (Operation *op : llvm::reverse(read))
        if (op->use_empty())
          op->erase();
    }
    put(update);
    for (Operation *op : writes)
      put(op);
    return behind;
  }

  nn::StepOp step;
  nn::MicroBatchesOp loop;
  Block *body;
  SymbolTable symbols;
  spmd::UpdateCutter cutter;
  llvm::StringSet<> written; ///< States, in the loop.
};

struct AdvanceUpdates : heddle::impl::SpmdAdvanceUpdatesBase<AdvanceUpdates> {
  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>())
      for (auto step : model.getOps<nn::StepOp>())
        advance(model, step);
  }

private:
  void advance(nn::ModelOp model, nn::StepOp step) {
    SmallVector<nn::MicroBatchesOp> loops(
        step.getBody().getOps<nn::MicroBatchesOp>());
    // What is kept has a place for each micro-batch of one loop.
    if (loops.size() != 1 ||
        !loops.front().getBody().getOps<nn::KeepOp>().empty())
      return;
    int64_t total = 0;
    for (auto update : step.getBody().getOps<nn::UpdateOp>())
      total += elementsOf(update.getParameter().getType());
    int64_t size = spmd::windowElements(
        model.getStrategy().getValue().subGroupSize, total);
    numMoved += Advancer(model, step, loops.front()).run(size);
  }
};

} // namespace
