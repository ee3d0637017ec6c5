//===- VerifyStates.cpp - Who reads and writes states ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifies rules about the names of states, and about the order of their reads
// and writes in a step. The rules hold after the phase `train` and after every
// later phase. The verifiers of these phases call this code.
//
//===----------------------------------------------------------------------===//

#include "Updates.h"
#include "dialects/Dist/ByteSize.h"
#include "dialects/Pipe/PipeDialect.h"
#include "dialects/Pipe/Schedule.h"
#include "dialects/Plan/PlanDialect.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/runtime/io/OffloadFile.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::states;

namespace {

/// Checks the states of one model, and their reads and writes in each step.
class StatesVerifier : UpdateReader {
public:
  StatesVerifier(nn::ModelOp model, StringRef code)
      : UpdateReader(model), model(model), code((code + ": ").str()),
        precision(wordOf(model.getStrategy().getValue().precision)) {}

  LogicalResult verify() {
    for (auto state : model.getOps<nn::StateOp>())
      if (state.isCopy())
        copied.insert(*state.getParameter());
    for (auto bucket : model.getOps<nn::BucketOp>())
      if (auto storage = bucket.getStorageAttr(); storage && isSplit(storage))
        for (StringRef member : statesOf(symbols, bucket.getSymName()))
          inSplitBucket.insert(member);
    for (auto state : model.getOps<nn::StateOp>())
      if (failed(verifyName(state)))
        return failure();
    for (auto step : model.getOps<nn::StepOp>()) {
      written.clear();
      updated.clear();
      covered.clear();
      if (failed(verifyBlock(step.getBody().front())))
        return failure();
      // A step without updates, such as evaluation, is not checked. Any other
      // step must update each trainable parameter. One of several train
      // programs need not, if it does not compute the gradient.
      if (!updated.empty() &&
          failed(verifyUpdates(step.getPhase().has_value())))
        return failure();
    }
    return success();
  }

private:
  /// Whether the storage of a bucket is split over replicas. (The mesh axis
  /// `tensor` instead splits each member of the bucket.)
  static bool isSplit(dist::TensorShardingAttr storage) {
    auto axes = cast<ArrayAttr>(storage.getDims()[0]);
    return llvm::any_of(axes.getAsValueRange<StringAttr>(), [](StringRef axis) {
      return dist::holdsReplicas(axis);
    });
  }

  /// Checks the name of a state that belongs to a parameter. Passes look for it
  /// by the name `PARAMETER.grad`, `PARAMETER.exp_avg` and so on.
  LogicalResult verifyName(nn::StateOp state) {
    if (!state.getParameter())
      return success();
    if (state.getRole() == nn::StateRole::Optimizer ||
        state.getRole() == nn::StateRole::Scalar) {
      if (state.getSymName() ==
          (*state.getParameter() + "." + state.getQuantity()).str())
        return success();
      return state.emitError(code)
             << "is a state of the optimizer for @" << *state.getParameter()
             << " and has to be named @" << *state.getParameter() << ".NAME";
    }
    bool isCopy = state.isCopy();
    std::string name =
        (*state.getParameter() + "." + (isCopy ? precision : "grad")).str();
    if (state.getSymName() == name)
      return success();
    return state.emitError(code)
           << "is the " << (isCopy ? "copy" : "gradient") << " of @"
           << *state.getParameter() << " and has to be named @" << name;
  }

  /// Checks the reads, writes and updates in an MLIR block, in the order in
  /// which the step executes them.
  LogicalResult verifyBlock(Block &block) {
    llvm::StringMap<nn::SetOp> unread; // Writes of this block not yet read.
    for (Operation &op : block) {
      op.walk([&](nn::GetOp get) {
        for (StringRef state : statesOf(symbols, get.getState()))
          unread.erase(state);
      });
      for (Region &region : op.getRegions()) {
        if (failed(verifyBlock(region.front())))
          return failure();
        region.walk([&](nn::SetOp set) {
          for (StringRef state : statesOf(symbols, set.getState()))
            unread.erase(state);
        });
      }
      if (auto get = dyn_cast<nn::GetOp>(op); get && failed(verifyGet(get)))
        return failure();
      if (auto fetch = dyn_cast<dist::FetchOp>(op);
          fetch &&
          failed(fetch.getSlot() ? verifySavedFetch(fetch)
                                 : verifyFetch(fetch, fetch.getOutput())))
        return failure();
      if (auto rows = dyn_cast<dist::FetchRowsOp>(op);
          rows && !isComputedWith(rows.getState()))
        return rows.emitError(code) << "reads rows of @" << rows.getState()
                                    << ", which no layer computes with";
      if (auto store = dyn_cast<dist::StoreOp>(op);
          store && failed(verifyStore(store)))
        return failure();
      auto set = dyn_cast<nn::SetOp>(op);
      if (!set)
        continue;
      if (failed(verifySet(set)))
        return failure();
      for (StringRef state : statesOf(symbols, set.getState())) {
        if (failed(verifyIsEarly(set, state)))
          return failure();
        nn::SetOp &before = unread[state];
        if (before)
          return twice(set, before, state);
        before = set;
        written.insert(state);
      }
    }
    return success();
  }

  /// Checks that no gradient is written after its parameter was updated,
  /// because the update would not have used it.
  LogicalResult verifyIsEarly(Operation *write, StringRef state) {
    if (roleOf(state) != nn::StateRole::Gradient ||
        !updated.contains(parameterOf(state)))
      return success();
    return write->emitError(code) << "writes the gradient @" << state
                                  << " when its parameter is updated";
  }

  LogicalResult twice(nn::SetOp set, nn::SetOp before, StringRef state) {
    InFlightDiagnostic error = set.emitError(code);
    error << "writes @" << state << " again: nothing has read what was written";
    error.attachNote(before.getLoc()) << "written here";
    return error;
  }

  LogicalResult verifySlot(Operation *op, StringRef name, Value slot) {
    auto state = symbols.lookup<nn::StateOp>(name);
    if (bool(slot) == (state && state.getRole() == nn::StateRole::Saved))
      return success();
    return op->emitError(code)
           << (slot ? "has a slot of @" : "has no slot of @") << name
           << (slot ? ", which has none" : ", which holds one for each");
  }

  LogicalResult verifyGet(nn::GetOp get) {
    for (StringRef state : statesOf(symbols, get.getState())) {
      nn::StateRole role = roleOf(state);
      bool mustBeWritten = nn::isMadeInStep(role);
      if (mustBeWritten && !written.contains(state))
        return get.emitError(code)
               << "reads the " << nn::stringifyStateRole(role) << " @" << state
               << " before it is written";
    }
    if (failed(verifyUsers(get, get.getValue())))
      return failure();
    auto state = symbols.lookup<nn::StateOp>(get.getState());
    bool ofMicroBatch = !isa<nn::StepOp>(get->getParentOp());
    if (state && state.getRole() == nn::StateRole::Gradient && ofMicroBatch &&
        !isAddedTo(get))
      return get.emitError(code) << "reads the gradient @" << get.getState()
                                 << " for something else than to add to it, "
                                    "once";
    return success(succeeded(verifyWhole(get, get.getState())) &&
                   succeeded(verifySlot(get, get.getState(), get.getSlot())));
  }

  /// Checks the operations that use a value which `get` read. The states of the
  /// optimizer may be read only by the optimizer. An operation that accumulates
  /// adds its result to an operand and overwrites this operand with the sum.
  /// The operand must then be a gradient or an accumulator.
  LogicalResult verifyUsers(nn::GetOp get, Value value) {
    nn::StateRole role = roleOf(firstStateOf(symbols, get.getState()));
    bool isSum =
        role == nn::StateRole::Gradient || role == nn::StateRole::Accumulator;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isExchange(user)) {
        if (failed(verifyUsers(get, user->getResult(0))))
          return failure();
        continue;
      }
      if (isa<nn::UnpackOp>(user) && role == nn::StateRole::Optimizer) {
        for (Value tile : user->getResults())
          if (failed(verifyUsers(get, tile)))
            return failure();
        continue;
      }
      bool isOfUpdate =
          isOptimizers(user) || isa<nn::StepOp>(user->getParentOp());
      if (role == nn::StateRole::Optimizer && !isOfUpdate)
        return user->emitError(code)
               << "reads @" << get.getState() << ", which is the optimizer's";
      for (auto &[range, result] : nn::initsOf(user))
        if (!isSum && range[0].get() == value)
          return user->emitError(code)
                 << "would take the place of the "
                 << nn::stringifyStateRole(role) << " @" << get.getState();
    }
    return success();
  }

  /// Whether `get` reads a gradient only in order to add to it. The read value
  /// must have a single use, because the addition overwrites it with the sum. A
  /// value that is computed from the sum must be written to the gradient.
  bool isAddedTo(nn::GetOp get) {
    if (!get->hasOneUse())
      return false;
    SmallVector<Operation *> worklist = {*get->getUsers().begin()};
    DenseSet<Operation *> seen;
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val();
      if (auto set = dyn_cast<nn::SetOp>(op))
        if (set.getState() == get.getState())
          return true;
      if (seen.insert(op).second)
        for (Value result : op->getResults())
          if (result.getType() == get.getType())
            llvm::append_range(worklist, result.getUsers());
    }
    return false;
  }

  /// Checks that no operation reads or writes a single member of a bucket that
  /// ZeRO splits over replicas, because no rank has the whole member.
  LogicalResult verifyWhole(Operation *op, StringRef name) {
    if (!inSplitBucket.contains(name))
      return success();
    return op->emitError(code) << "@" << name
                               << " is split over ranks as a part of its "
                                  "bucket, and cannot be read or written by "
                                  "itself";
  }

  LogicalResult verifySet(nn::SetOp set) {
    for (Operation *maker : makersOf(set.getValue()))
      if (failed(verifyMaker(set, maker)))
        return failure();
    return success(succeeded(verifyWhole(set, set.getState())) &&
                   succeeded(verifySlot(set, set.getState(), set.getSlot())));
  }

  /// Checks that the operation `maker` may compute the value that `set` writes;
  /// for a bucket, one of the values that nn.pack concatenates. Only the
  /// optimizer's operations may compute new values of parameters and moments.
  LogicalResult verifyMaker(nn::SetOp set, Operation *maker) {
    for (StringRef state : statesOf(symbols, set.getState())) {
      nn::StateRole role = roleOf(state);
      bool wanted = !nn::isMadeInStep(role) && role != nn::StateRole::Cache;
      if (wanted != isOptimizers(maker))
        return set.emitError(code)
               << (wanted ? "writes what no optimizer computes to the "
                          : "writes what the optimizer computes to the ")
               << nn::stringifyStateRole(role) << " @" << state;
    }
    std::optional<Update> update = updateOf(maker);
    if (update && failed(verifyUpdate(*update)))
      return failure();
    bool isRead = maker && computesFrom(maker, set.getState());
    // The new value of a cache must be computed from its old value, which holds
    // the tokens of earlier runs.
    auto written = symbols.lookup<nn::StateOp>(set.getState());
    bool isCache = written && written.getRole() == nn::StateRole::Cache;
    if (!update && !isRead && (isCache || isOptimizers(maker)))
      return set.emitError(code) << "writes to @" << set.getState()
                                 << " what is computed of something else";
    return success();
  }

  /// Whether layers read the state `name`, or the states of the bucket `name`.
  /// If layers do not, only the optimizer reads these states.
  bool isComputedWith(StringRef name) {
    StringRef state = firstStateOf(symbols, name);
    nn::StateRole role = roleOf(state);
    return role == nn::StateRole::Derived ||
           (role == nn::StateRole::Parameter && !copied.contains(state));
  }

  /// Checks a fetch of an offloaded state. A fetched state of the optimizer may
  /// be read only by the optimizer.
  LogicalResult verifyFetch(dist::FetchOp fetch, Value value) {
    if (isComputedWith(fetch.getState()))
      return success();
    if (isGradient(fetch.getState()))
      return verifyGradientFetch(fetch);
    for (Operation *user : value.getUsers()) {
      if (isExchange(user) && failed(verifyFetch(fetch, user->getResult(0))))
        return failure();
      if (!isExchange(user) && !isOptimizers(user) &&
          !isa<nn::StepOp>(user->getParentOp()))
        return user->emitError(code)
               << "reads @" << fetch.getState() << ", which is the optimizer's";
    }
    return success();
  }

  bool isGradient(StringRef name) {
    return roleOf(firstStateOf(symbols, name)) == nn::StateRole::Gradient;
  }

  /// Returns the states of the bucket `name` that overlap with the given range;
  /// for a state without a bucket, the state. If replicas split the bucket, the
  /// range counts elements of a rank's shard. The states in this range then
  /// differ between ranks, so all states are returned.
  SmallVector<StringRef> statesIn(StringRef name, int64_t first,
                                  int64_t elements) {
    std::vector<Member> &members = layouts[name];
    if (members.empty()) {
      int64_t offset = 0;
      for (StringRef state : statesOf(symbols, name)) {
        int64_t size = nn::paddedElements(elementsOfState(state));
        members.push_back({state, offset, size, inSplitBucket.contains(state)});
        offset += size;
      }
    }
    SmallVector<StringRef> found;
    for (const Member &member : members)
      if (member.isSplit || (member.offset < first + elements &&
                             first < member.offset + member.size))
        found.push_back(member.state);
    return found;
  }

  /// Checks a fetch of a gradient. The gradient must have been stored before.
  /// Inside of the loop over micro-batches it may only be added to and stored
  /// again. After the loop any operation may read it.
  LogicalResult verifyGradientFetch(dist::FetchOp fetch) {
    SmallVector<StringRef> states =
        statesIn(fetch.getState(), fetch.getElement(),
                 elementsOf(fetch.getOutput().getType()));
    for (StringRef state : states)
      if (!written.contains(state))
        return fetch.emitError(code)
               << "fetches the gradient @" << state << " before it is stored";
    if (isa<nn::StepOp>(fetch->getParentOp()) || isStoredAgain(fetch))
      return success();
    return fetch.emitError(code)
           << "fetches gradients of @" << fetch.getState()
           << " for something else than to add to them, and to store them";
  }

  /// Whether a value that is computed from the fetched value is stored to the
  /// state from which it was fetched.
  static bool isStoredAgain(dist::FetchOp fetch) {
    SmallVector<Operation *> worklist(fetch->getUsers());
    DenseSet<Operation *> seen;
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val();
      if (auto store = dyn_cast<dist::StoreOp>(op))
        if (store.getState() == fetch.getState())
          return true;
      if (seen.insert(op).second)
        llvm::append_range(worklist, op->getUsers());
    }
    return false;
  }

  /// Checks that a saved activation is stored before it is fetched.
  LogicalResult verifySavedFetch(dist::FetchOp fetch) {
    if (!written.contains(fetch.getState()))
      return fetch.emitError(code)
             << "fetches @" << fetch.getState() << " before it is stored";
    return verifySlot(fetch, fetch.getState(), fetch.getSlot());
  }

  /// Checks that a store to a file covers whole pages. A store of a part of a
  /// page would overwrite the rest of the page.
  LogicalResult verifyPages(dist::StoreOp store) {
    if (memoryOf(symbols, store.getState()) != nn::MemoryKind::File)
      return success();
    Type type = store.getValue().getType();
    int64_t page =
        io::OffloadFile::pageBytes / dist::byteSize(getElementTypeOrSelf(type));
    int64_t first = store.getElement(), end = first + elementsOf(type);
    if (first % page == 0 &&
        (end % page == 0 || end == elementsOfState(store.getState())))
      return success();
    return store.emitError(code)
           << "stores elements " << first << " to " << end << " of @"
           << store.getState() << ", which are no whole pages of a file";
  }

  /// Checks that a stored gradient is computed by the backward pass, and not by
  /// the optimizer.
  LogicalResult verifyGradientStore(dist::StoreOp store) {
    if (failed(verifyPages(store)))
      return failure();
    for (Operation *maker : makersOf(store.getValue()))
      if (isOptimizers(maker))
        return store.emitError(code) << "writes what the optimizer computes to "
                                        "the gradients @"
                                     << store.getState();
    for (StringRef state : statesIn(store.getState(), store.getElement(),
                                    elementsOf(store.getValue().getType()))) {
      if (failed(verifyIsEarly(store, state)))
        return failure();
      written.insert(state);
    }
    return success();
  }

  LogicalResult verifyStore(dist::StoreOp store) {
    if (store.getSlot()) {
      written.insert(store.getState());
      return verifySlot(store, store.getState(), store.getSlot());
    }
    if (isGradient(store.getState()))
      return verifyGradientStore(store);
    for (Operation *maker : makersOf(store.getValue())) {
      std::optional<Update> update = updateOf(maker);
      if (!update)
        return store.emitError(code)
               << "writes what no optimizer computes to @" << store.getState();
      if (failed(verifyUpdate(*update)))
        return failure();
    }
    return success();
  }

  /// The name of the state that a value is read from; "" if it is not read from
  /// a state.
  static StringRef stateRead(Value value) {
    Operation *maker = makerOf(value);
    if (auto get = dyn_cast_or_null<nn::GetOp>(maker))
      return get.getState();
    auto fetch = dyn_cast_or_null<dist::FetchOp>(maker);
    return fetch ? fetch.getState() : StringRef();
  }

  /// Whether the state is a single number of the optimizer, such as a power of
  /// beta.
  bool isNumber(StringRef name) {
    auto state = symbols.lookup<nn::StateOp>(name);
    return state && state.getRole() == nn::StateRole::Optimizer &&
           !state.getParameter();
  }

  LogicalResult verifyNumber(const Update &update, StringRef name) {
    if (isWritten(update.newParameter, name))
      return success();
    return update.op->emitError(code)
           << "reads @" << name << ", and writes another state";
  }

  /// How many times a step runs this region. The region is the body of a loop
  /// over micro-batches, or of a pipeline fragment (the forward or backward
  /// pass of a pipeline stage), which runs once per micro-batch.
  static int64_t timesOf(Region &body) {
    if (auto loop = dyn_cast<nn::MicroBatchesOp>(body.getParentOp()))
      return loop.getCount();
    auto fragments = dyn_cast<pipe::FragmentsOp>(body.getParentOp());
    if (!fragments)
      return 1;
    pipe::LineAttr line = fragments.getLine();
    const pipe::Action &kind = line.getKinds()[body.getRegionNumber()];
    return llvm::count_if(line.getActions(), [&](const pipe::Action &action) {
      return action.kindOnly() == kind;
    });
  }

  /// Checks that all operands and results of an update belong to the same
  /// parameters, and cover the same range of the parameters' elements.
  LogicalResult verifyUpdate(const Update &update) {
    if (!updates.insert(update.op).second)
      return success();
    if (int64_t times = timesOf(*update.op->getParentRegion()); times > 1)
      return update.op->emitError(code)
             << "updates once in each of " << times << " micro-batches";
    StringRef state = firstStateOf(symbols, stateRead(update.parameter));
    if (isNumber(state))
      return verifyNumber(update, state);
    // What the optimizer keeps can be updated without the parameters.
    auto first = symbols.lookup<nn::StateOp>(state);
    bool isKept = first && first.getRole() == nn::StateRole::Optimizer;
    StringRef parameter =
        isKept ? kindOf(state) : stringifyStateRole(nn::StateRole::Parameter);
    StateRange range = rangeRead(update.parameter, parameter);
    auto isRewritten = [&](Value before, Value after, StringRef kind) {
      return rangeRead(before, kind) == range &&
             rangeWritten(after, kind) == range;
    };
    bool right =
        !range.parameters.empty() &&
        isRewritten(update.parameter, update.newParameter, parameter) &&
        (!update.copy ||
         rangeWritten(update.copy,
                      nn::stringifyStateRole(nn::StateRole::Derived)) == range);
    for (auto [before, after] : llvm::zip(update.states, update.newStates)) {
      StringRef state = stateRead(before);
      if (isNumber(state)) { // It is for all parameters of a bucket.
        right &= isWritten(after, state);
        continue;
      }
      right &= !state.empty() &&
               isRewritten(before, after, kindOf(firstStateOf(symbols, state)));
    }
    if (!right)
      return update.op->emitError(code)
             << "does not read and write parameters, and what the optimizer "
                "keeps of the same ones, in one order";
    // If the update's gradient is not read from gradient states, for example
    // because nn.pack joined several values, `gradients` is empty. It then
    // cannot be compared with `range`.
    StateRange gradients = rangeRead(
        update.gradient, nn::stringifyStateRole(nn::StateRole::Gradient));
    if (!gradients.parameters.empty() && !(gradients == range))
      return update.op->emitError(code)
             << "reads the gradients of other parameters than it updates";
    return isKept ? success() : count(update, range);
  }

  /// Counts the elements that an update covers. An update may be divided into
  /// several, each for a range of elements. The ranges must follow each other
  /// in the order of elements, without gaps.
  LogicalResult count(const Update &update, const StateRange &range) {
    int64_t &next = covered[range.parameters.front()];
    next = range.first == 0 ? 0 : next;
    if (range.first != next)
      return update.op->emitError(code)
             << "updates parameters from element " << range.first
             << " on, those before up to element " << next;
    next += range.count;
    if (next == range.whole)
      for (StringRef parameter : range.parameters)
        ++updated[parameter];
    return success();
  }

  LogicalResult verifyUpdates(bool hasPhase) {
    for (auto state : model.getOps<nn::StateOp>()) {
      if (state.getRole() != nn::StateRole::Parameter)
        continue;
      int times = updated.lookup(state.getSymName());
      bool mayRest = hasPhase && times == 0 &&
                     !written.contains((state.getSymName() + ".grad").str());
      if (times != int(state.getTrainable()) && !mayRest)
        return state.emitError(code)
               << "updated " << times << " times in a step; "
               << (state.getTrainable() ? "once is right"
                                        : "it is not trainable");
    }
    return success();
  }

  nn::ModelOp model;
  std::string code, precision;
  /// A member of a bucket (several states in one flat tensor), or a state
  /// without a bucket.
  struct Member {
    StringRef state;
    int64_t offset, size;
    bool isSplit; ///< Replicas split the bucket; `offset` has no meaning.
  };
  /// The members of each bucket, in order. They are cached, because many
  /// updates use the same bucket.
  llvm::StringMap<std::vector<Member>> layouts;
  llvm::StringSet<> written, inSplitBucket;
  /// The parameters that have a copy in another precision, which layers read
  /// instead of the parameter.
  llvm::StringSet<> copied;
  llvm::StringMap<int> updated;
  /// How many elements the ranges of a divided update have covered so far. The
  /// key is the first parameter of the update.
  llvm::StringMap<int64_t> covered;
  DenseSet<Operation *> updates;
};

} // namespace

LogicalResult heddle::verifyStates(nn::ModelOp model, StringRef code) {
  if (failed(verifyGradientsBegin(model, code)))
    return failure();
  return StatesVerifier(model, code).verify();
}
