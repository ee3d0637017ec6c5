//===- AdvanceUpdates.cpp - Updates beside the backward pass --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `spmd-advance-updates`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "MicroBatches.h"
#include "StateTiles.h"
#include "UpdateCutter.h"
#include "dialects/Pipe/PipeDialect.h"
#include "dialects/Pipe/Schedule.h"
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

/// Returns the block that computes the last micro-batch. This is the body of a
/// loop over micro-batches or, in a pipeline stage, the body of the last
/// forward or backward pass in the stage's schedule.
Block *lastBodyOf(Operation *loop) {
  auto fragments = dyn_cast<pipe::FragmentsOp>(loop);
  if (!fragments)
    return &loop->getRegion(0).front();
  pipe::LineAttr line = fragments.getLine();
  size_t last = line.kindOf(line.getActions().back());
  return &fragments.getBodies()[last].front();
}

/// Moves optimizer updates of a step into `loop`, the operation before them
/// that runs the micro-batches: a loop over micro-batches or, in a pipeline
/// stage, the operation that runs the stage's schedule. The step must have
/// exactly one such operation.
class Advancer {
public:
  Advancer(nn::ModelOp model, nn::StepOp step, Operation *loop)
      : step(step), loop(loop), body(lastBodyOf(loop)), symbols(model),
        cutter(step, symbols) {
    loop->walk([&](nn::SetOp set) { note(set, written); });
  }

  /// Splits optimizer updates of buckets into updates of about `size` elements.
  /// Moves those updates that can run during the last micro-batch into the
  /// block that computes it. Returns how many updates moved.
  size_t run(int64_t size) {
    SmallVector<nn::UpdateOp> updates;
    for (auto update :
         llvm::make_early_inc_range(step.getBody().getOps<nn::UpdateOp>()))
      if (mayMove(update, /*inPart=*/true))
        for (nn::UpdateOp part :
             cutter.cut(update, size, writtenAfterLoop(update)))
          if (mayMove(part))
            updates.push_back(part);
    if (!updates.empty())
      splitLast();
    SmallVector<std::pair<Operation *, nn::UpdateOp>> places;
    // If nothing in this MLIR block writes the gradients, earlier backward
    // passes have computed them. The update can then run at the beginning of
    // the MLIR block.
    Operation *begin = &body->front();
    for (nn::UpdateOp update : updates)
      if (Operation *last = lastUse(update); last || begin->getNextNode())
        places.push_back({last ? last : begin, update});
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
  // Which updates can move
  //===--------------------------------------------------------------------===//

  /// If `flat` is this rank's part of a state, returns the operations that read
  /// the state and slice that part. Returns an empty list if `flat` is computed
  /// otherwise, for example by a reduction of gradients after all
  /// micro-batches.
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

  bool isOffloaded(Value flat) {
    SmallVector<Operation *> read = readOf(flat);
    return !read.empty() &&
           memoryOf(symbols, cast<nn::GetOp>(read.front()).getState()) !=
               nn::MemoryKind::Device;
  }

  /// Whether a scalar can be computed before the micro-batches. It must depend
  /// only on values from before them, and on states that nothing writes between
  /// `loop` and the scalar's computation.
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

  /// Whether no operation after the micro-batches reads a state that the
  /// optimizer update writes. A read whose value only the update itself uses
  /// does not count.
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

  /// Returns the states that are written after all micro-batches and before
  /// `op`.
  llvm::StringSet<> writtenAfterLoop(Operation *op) {
    llvm::StringSet<> since;
    for (Operation *other = loop; other != op; other = other->getNextNode())
      if (auto set = dyn_cast<nn::SetOp>(other))
        note(set, since);
    return since;
  }

  /// Whether at least one of the states that `get` reads is written after all
  /// micro-batches and before `op`. If `all` is true, every one of these states
  /// must be written there.
  bool isRewritten(nn::GetOp get, Operation *op, bool all = false) {
    llvm::StringSet<> since = writtenAfterLoop(op);
    auto isAmong = [&](StringRef state) { return since.contains(state); };
    SmallVector<StringRef> states = statesOf(symbols, get.getState());
    return all ? llvm::all_of(states, isAmong) : llvm::any_of(states, isAmong);
  }

  /// Whether an optimizer update can move into the last micro-batch. Its states
  /// must be offloaded, its gradients must not be, and everything that the
  /// update reads must be final at the end of the last micro-batch. If `inPart`
  /// is true, some of its gradients may be written after the last micro-batch.
  /// Then the update is split later, and only the updates of the other
  /// gradients move.
  bool mayMove(nn::UpdateOp update, bool inPart = false) {
    std::optional<SmallVector<Operation *>> writes = spmd::writesOf(update);
    if (!writes || !isAlone(update, *writes) ||
        isOffloaded(update.getGradient()) ||
        llvm::none_of(update.getStates(),
                      [&](Value state) { return isOffloaded(state); }))
      return false;
    return llvm::all_of(update->getOperands(), [&](Value operand) {
      if (cast<RankedTensorType>(operand.getType()).getRank() == 0)
        return canPrecede(operand);
      SmallVector<Operation *> read = readOf(operand);
      return !read.empty() &&
             !isRewritten(cast<nn::GetOp>(read.front()), update,
                          inPart && operand == update.getGradient());
    });
  }

  //===--------------------------------------------------------------------===//
  // Moving updates
  //===--------------------------------------------------------------------===//

  /// Splits the last micro-batch off the loop over micro-batches. `loop` is
  /// then the loop that runs only this micro-batch, in which accumulated
  /// gradients become final.
  void splitLast() {
    if (auto fragments = dyn_cast<pipe::FragmentsOp>(loop))
      return splitLine(fragments);
    auto batches = cast<nn::MicroBatchesOp>(loop);
    if (int64_t others = batches.getCount() - 1)
      spmd::splitFirst(batches, others);
  }

  /// Splits the last forward or backward pass of a pipeline stage off the
  /// stage's schedule. `loop` becomes the new operation that runs only this
  /// pass, in which most accumulated gradients become final.
  void splitLine(pipe::FragmentsOp fragments) {
    ArrayRef<pipe::Action> line = fragments.getLine().getActions();
    ArrayRef<pipe::Action> before = line.drop_back();
    OpBuilder builder(fragments);
    if (!before.empty())
      cutTo(cast<pipe::FragmentsOp>(builder.clone(*fragments)), before);
    loop = cutTo(fragments, line.take_back());
  }

  /// Replaces `fragments`, the operation that runs the schedule of a pipeline
  /// stage, by one that runs only `actions`, a part of the schedule, and has
  /// only the bodies (forward or backward passes) that these actions run.
  static pipe::FragmentsOp cutTo(pipe::FragmentsOp fragments,
                                 ArrayRef<pipe::Action> actions) {
    auto line = pipe::LineAttr::get(fragments.getContext(), actions);
    SmallVector<int64_t> slots;
    SmallVector<Region *> bodies;
    for (auto [kind, count, body] :
         llvm::zip(fragments.getLine().getKinds(), fragments.getSlots(),
                   fragments.getBodies()))
      if (llvm::is_contained(line.getKinds(), kind)) {
        slots.push_back(count);
        bodies.push_back(&body);
      }
    OpBuilder builder(fragments);
    auto part = builder.create<pipe::FragmentsOp>(fragments.getLoc(), line,
                                                  slots, bodies.size());
    for (auto [to, from] : llvm::zip(part.getBodies(), bodies))
      to.takeBody(*from);
    fragments.erase();
    return part;
  }

  /// Returns the later of two operations in the body of the last micro-batch.
  /// If `a` is null, returns `b`.
  Operation *later(Operation *a, Operation *b) const {
    b = body->findAncestorOpInBlock(*b);
    return !a || a->isBeforeInBlock(b) ? b : a;
  }

  /// Returns the last operation that reads `value` or a part of it. Returns
  /// `last` if `last` comes later.
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

  /// Returns the last operation of the MLIR block after which the optimizer
  /// update may run: one that writes a gradient which the update reads, or
  /// reads a state which the update writes. Null if there is none.
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

  /// Moves the operations that compute a scalar to before the last micro-batch,
  /// so that updates in that micro-batch can use the scalar.
  void precede(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || op->isBeforeInBlock(loop))
      return;
    for (Value operand : op->getOperands())
      precede(operand);
    op->moveBefore(loop);
  }

  /// Moves an optimizer update into the last micro-batch, immediately after
  /// `last`, together with the reads of its operands and the writes of its
  /// results. Returns the last operation that moved.
  Operation *move(nn::UpdateOp update, Operation *last) {
    SmallVector<Operation *> writes = *spmd::writesOf(update);
    OpBuilder builder(update);
    auto put = [&](Operation *op) {
      op->moveAfter(last);
      last = op;
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
      operand.set(last->getResult(0));
      for (Operation *op : llvm::reverse(read))
        if (op->use_empty())
          op->erase();
    }
    put(update);
    for (Operation *op : writes)
      put(op);
    return last;
  }

  nn::StepOp step;
  Operation *loop;
  Block *body; ///< The block that computes the last micro-batch.
  SymbolTable symbols;
  spmd::UpdateCutter cutter;
  llvm::StringSet<> written; ///< States that `loop` writes.
};

struct AdvanceUpdates : heddle::impl::SpmdAdvanceUpdatesBase<AdvanceUpdates> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    for (auto step : model.getOps<nn::StepOp>())
      advance(model, step);
  }

private:
  void advance(nn::ModelOp model, nn::StepOp step) {
    SmallVector<Operation *> loops;
    for (Operation &op : step.getBody().getOps())
      if (isa<nn::MicroBatchesOp, pipe::FragmentsOp>(op))
        loops.push_back(&op);
    if (loops.size() != 1 || spmd::keepsValues(step))
      return;
    int64_t total = 0;
    for (auto update : step.getBody().getOps<nn::UpdateOp>())
      total += elementsOf(update.getParameter().getType());
    int64_t size =
        spmd::tileElements(model.getStrategy().getValue().subGroupSize, total);
    numMoved += Advancer(model, step, loops.front()).run(size);
  }
};

} // namespace
