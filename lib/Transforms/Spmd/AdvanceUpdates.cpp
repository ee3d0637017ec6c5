//===- AdvanceUpdates.cpp - Updates as soon as the gradients are there ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

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

int64_t elementsOf(Value flat) {
  return cast<RankedTensorType>(flat.getType()).getNumElements();
}

/// The updates behind the loop over micro-batches of a step, which has one
/// loop.
class Advancer {
public:
  Advancer(nn::ModelOp model, nn::StepOp step, nn::MicroBatchesOp loop)
      : model(model), step(step), loop(loop), body(&loop.getBody().front()),
        symbols(model) {
    body->walk([&](nn::SetOp set) { note(set, written); });
  }

  /// Runs of members have `size` elements, about. Returns how many updates were
  /// moved.
  size_t run(int64_t size) {
    SmallVector<nn::UpdateOp> updates;
    for (auto update :
         llvm::make_early_inc_range(step.getBody().getOps<nn::UpdateOp>()))
      if (mayMove(update))
        llvm::append_range(updates, cut(update, size));
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

  /// The operations that write an update's results, in order: writes of states,
  /// and what ranks exchange for them. Nothing where others read them.
  static std::optional<SmallVector<Operation *>> writesOf(nn::UpdateOp update) {
    llvm::SetVector<Operation *> ops;
    SmallVector<Value> values(update.getOutputs());
    for (size_t i = 0; i < values.size(); ++i)
      for (Operation *user : values[i].getUsers()) {
        if (!isa<nn::SetOp, dist::AllGatherOp>(user))
          return std::nullopt;
        ops.insert(user);
        llvm::append_range(values, user->getResults());
      }
    SmallVector<Operation *> sorted = ops.takeVector();
    llvm::sort(sorted, [](Operation *a, Operation *b) {
      return a->isBeforeInBlock(b);
    });
    return sorted;
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
    std::optional<SmallVector<Operation *>> writes = writesOf(update);
    if (!writes || !isAlone(update, *writes) ||
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
  // Updates of a few members
  //===--------------------------------------------------------------------===//

  /// The bucket that a value is read from, with no other step between; null
  /// where its members have no places.
  nn::BucketOp bucketOf(Value flat) {
    auto get = flat.getDefiningOp<nn::GetOp>();
    auto bucket =
        get ? symbols.lookup<nn::BucketOp>(get.getState()) : nn::BucketOp();
    return bucket && !bucket.getElements() ? bucket : nn::BucketOp();
  }

  /// How many members each run has: as many as `size` elements have room for.
  SmallVector<size_t> runsOf(nn::BucketOp bucket, int64_t size) {
    SmallVector<size_t> runs;
    int64_t elements = 0;
    for (StringRef name : statesOf(symbols, bucket.getSymName())) {
      auto state = symbols.lookup<nn::StateOp>(name);
      int64_t more = nn::paddedElements(state.getTensorType().getNumElements());
      if (runs.empty() || elements + more > size) {
        runs.push_back(0);
        elements = 0;
      }
      ++runs.back();
      elements += more;
    }
    return runs;
  }

  /// A bucket of some of the members of `whole`. The last one has the padding.
  nn::BucketOp runOf(nn::BucketOp whole, size_t first, size_t count,
                     size_t number) {
    ArrayRef<Attribute> members = whole.getMembers().getValue();
    int64_t elements = 0, before = 0;
    for (auto [place, member] : llvm::enumerate(members)) {
      auto name = cast<FlatSymbolRefAttr>(member).getValue();
      int64_t padded = nn::paddedElements(
          symbols.lookup<nn::StateOp>(name).getTensorType().getNumElements());
      (place < first ? before : elements) += place < first + count ? padded : 0;
    }
    auto type = cast<RankedTensorType>(whole.getType());
    if (first + count == members.size())
      elements = type.getNumElements() - before;
    OpBuilder builder(step);
    auto run = builder.create<nn::BucketOp>(
        whole.getLoc(), (whole.getSymName() + "." + Twine(number)).str(),
        builder.getArrayAttr(members.slice(first, count)),
        type.clone({elements}));
    if (auto storage = whole.getStorageAttr())
      run.setStorageAttr(storage);
    symbols.insert(run);
    return run;
  }

  /// One update for each run of members, in the place of an update of all.
  SmallVector<nn::UpdateOp> cut(nn::UpdateOp update, int64_t size) {
    SmallVector<OpOperand *> flat;
    for (OpOperand &operand : update->getOpOperands())
      if (cast<RankedTensorType>(operand.get().getType()).getRank() > 0)
        flat.push_back(&operand);
    SmallVector<nn::SetOp> sets;
    SmallVector<Operation *> writes = *writesOf(update);
    for (Operation *op : writes)
      if (auto set = dyn_cast<nn::SetOp>(op))
        sets.push_back(set);
    bool isPlain =
        sets.size() == update.getOutputs().size() &&
        llvm::all_of(flat, [&](OpOperand *o) { return bucketOf(o->get()); });
    SmallVector<size_t> runs;
    if (isPlain)
      runs = runsOf(bucketOf(update.getParameter()), size);
    if (runs.size() < 2)
      return {update};
    SmallVector<nn::UpdateOp> parts;
    size_t first = 0;
    for (auto [number, count] : llvm::enumerate(runs)) {
      parts.push_back(writeRun(update, flat, sets, first, count, number));
      first += count;
    }
    erase(update, flat, sets);
    return parts;
  }

  nn::UpdateOp writeRun(nn::UpdateOp update, ArrayRef<OpOperand *> flat,
                        ArrayRef<nn::SetOp> sets, size_t first, size_t count,
                        size_t number) {
    OpBuilder builder(update);
    IRMapping mapping;
    llvm::StringMap<nn::BucketOp> buckets;
    auto bucketFor = [&](StringRef whole) {
      nn::BucketOp &run = buckets[whole];
      if (!run)
        run = runOf(symbols.lookup<nn::BucketOp>(whole), first, count, number);
      return run;
    };
    for (OpOperand *operand : flat) {
      nn::BucketOp run =
          bucketFor(operand->get().getDefiningOp<nn::GetOp>().getState());
      mapping.map(operand->get(),
                  builder.create<nn::GetOp>(update.getLoc(), run.getType(),
                                            run.getSymName()));
    }
    auto part = cast<nn::UpdateOp>(builder.clone(*update, mapping));
    for (nn::SetOp set : sets) {
      nn::BucketOp run = bucketFor(set.getState());
      Value result = mapping.lookup(set.getValue());
      result.setType(run.getType());
      builder.create<nn::SetOp>(set.getLoc(), run.getSymName(), result);
    }
    return part;
  }

  /// What was cut, and the buckets that nothing reads or writes any more.
  void erase(nn::UpdateOp update, ArrayRef<OpOperand *> flat,
             ArrayRef<nn::SetOp> sets) {
    llvm::SetVector<Operation *> gets;
    llvm::SetVector<StringRef> names;
    for (OpOperand *operand : flat)
      gets.insert(operand->get().getDefiningOp());
    for (nn::SetOp set : sets) {
      names.insert(set.getState());
      set.erase();
    }
    update.erase();
    for (Operation *get : gets)
      if (get->use_empty())
        get->erase();
    for (StringRef name : names) {
      auto bucket = symbols.lookup<nn::BucketOp>(name);
      if (bucket && SymbolTable::symbolKnownUseEmpty(bucket, model))
        symbols.erase(bucket);
    }
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
    SmallVector<Operation *> writes = *writesOf(update);
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
    SmallVector<Operation *> writes = *writesOf(update);
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

  nn::ModelOp model;
  nn::StepOp step;
  nn::MicroBatchesOp loop;
  Block *body;
  SymbolTable symbols;
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
      total += elementsOf(update.getParameter());
    int64_t size = spmd::windowElements(
        model.getStrategy().getValue().subGroupSize, total);
    numMoved += Advancer(model, step, loops.front()).run(size);
  }
};

} // namespace
