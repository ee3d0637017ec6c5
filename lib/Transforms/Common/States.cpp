//===- States.cpp - Who reads and writes states ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Common/States.h"
#include "dialects/Plan/PlanDialect.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;

SmallVector<StringRef> heddle::statesOf(const SymbolTable &symbols,
                                        StringRef name) {
  auto bucket = symbols.lookup<nn::BucketOp>(name);
  if (!bucket)
    return {name};
  return llvm::map_to_vector(
      bucket.getMembers().getAsRange<FlatSymbolRefAttr>(),
      [](FlatSymbolRefAttr member) { return member.getValue(); });
}

/// Whether an operation makes of one value, as ranks exchange, split or sum it,
/// another one.
static bool isExchange(Operation *op) {
  return isa<dist::DistDialect>(op->getDialect()) &&
         op->getNumOperands() == 1 && op->getNumResults() == 1;
}

/// The operation that a value comes from, but for exchanges; null for none.
static Operation *makerOf(Value value) {
  Operation *op = value ? value.getDefiningOp() : nullptr;
  while (op && isExchange(op))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

namespace {

/// What an update reads and writes: the optimizer's operation, or the launch of
/// a kernel that has it.
struct Update {
  Operation *op = nullptr;
  /// Null: made inside of the kernel.
  Value parameter, gradient, average, squares;
  /// Null: not there.
  Value newParameter, newAverage, newSquares, copy;
};

class StatesVerifier {
public:
  StatesVerifier(nn::ModelOp model, StringRef code)
      : model(model), symbols(model), code((code + ": ").str()),
        precision(wordOf(model.getStrategy().getValue().precision)) {}

  LogicalResult run() {
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
      if (failed(verifyBlock(step.getBody().front())))
        return failure();
      // Where a step has updates at all.
      if (!updated.empty() && failed(verifyUpdates()))
        return failure();
    }
    return success();
  }

private:
  /// Over replicas: what other axes split are its members.
  static bool isSplit(dist::TensorShardingAttr storage) {
    auto axes = cast<ArrayAttr>(storage.getDims()[0]);
    return llvm::any_of(axes.getAsValueRange<StringAttr>(), [](StringRef axis) {
      return dist::holdsReplicas(axis);
    });
  }

  StringRef roleOf(StringRef state) {
    return symbols.lookup<nn::StateOp>(state).getRole();
  }

  /// The parameter that a state is, or belongs to.
  StringRef parameterOf(StringRef name) {
    auto state = symbols.lookup<nn::StateOp>(name);
    return state.getParameter().value_or(name);
  }

  /// Passes find what belongs to a parameter by its name.
  LogicalResult verifyName(nn::StateOp state) {
    if (!state.getParameter())
      return success();
    std::string suffix = state.getRole() == "gradient" ? "grad"
                         : state.getRole() == "compute-copy"
                             ? precision
                             : state.getRole().str();
    std::string name = (*state.getParameter() + "." + suffix).str();
    if (state.getSymName() == name)
      return success();
    return state.emitError(code)
           << "is the " << state.getRole() << " of @" << *state.getParameter()
           << " and has to be named @" << name;
  }

  /// Operations in the order in which they run.
  LogicalResult verifyBlock(Block &block) {
    llvm::StringMap<nn::SetOp> unread; // Written in this block.
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
      auto set = dyn_cast<nn::SetOp>(op);
      if (!set)
        continue;
      if (failed(verifySet(set)))
        return failure();
      for (StringRef state : statesOf(symbols, set.getState())) {
        nn::SetOp &before = unread[state];
        if (before)
          return twice(set, before, state);
        before = set;
        written.insert(state);
      }
    }
    return success();
  }

  LogicalResult twice(nn::SetOp set, nn::SetOp before, StringRef state) {
    InFlightDiagnostic error = set.emitError(code);
    error << "writes @" << state << " again: nothing has read what was written";
    error.attachNote(before.getLoc()) << "written here";
    return error;
  }

  LogicalResult verifySlot(Operation *op, StringRef name, Value slot) {
    auto state = symbols.lookup<nn::StateOp>(name);
    if (bool(slot) == (state && state.getRole() == "saved"))
      return success();
    return op->emitError(code)
           << (slot ? "has a slot of @" : "has no slot of @") << name
           << (slot ? ", which has none" : ", which holds one for each");
  }

  LogicalResult verifyGet(nn::GetOp get) {
    for (StringRef state : statesOf(symbols, get.getState())) {
      StringRef role = roleOf(state);
      bool mustBeWritten = role == "gradient" || role == "accumulator" ||
                           role == "saved" || role == "scalar";
      if (mustBeWritten && !written.contains(state))
        return get.emitError(code) << "reads the " << role << " @" << state
                                   << " before it is written";
    }
    if (failed(verifyUsers(get, get.getValue())))
      return failure();
    auto state = symbols.lookup<nn::StateOp>(get.getState());
    bool ofMicroBatch = !isa<nn::StepOp>(get->getParentOp());
    if (state && state.getRole() == "gradient" && ofMicroBatch &&
        !isAddedTo(get))
      return get.emitError(code) << "reads the gradient @" << get.getState()
                                 << " for something else than to add to it, "
                                    "once";
    return success(succeeded(verifyWhole(get, get.getState())) &&
                   succeeded(verifySlot(get, get.getState(), get.getSlot())));
  }

  /// Averages are the optimizer's, and sums take the place of gradients and of
  /// other sums alone.
  LogicalResult verifyUsers(nn::GetOp get, Value value) {
    StringRef role = roleOf(statesOf(symbols, get.getState()).front());
    bool isAverage = role == "exp_avg" || role == "exp_avg_sq";
    bool isSum = role == "gradient" || role == "accumulator";
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isExchange(user)) {
        if (failed(verifyUsers(get, user->getResult(0))))
          return failure();
        continue;
      }
      if (isAverage && !updateOf(user))
        return user->emitError(code)
               << "reads the " << role << " of @" << get.getState()
               << ", which is the optimizer's";
      for (auto &[range, result] : nn::initsOf(user))
        if (!isSum && range[0].get() == value)
          return user->emitError(code) << "would take the place of the " << role
                                       << " @" << get.getState();
    }
    return success();
  }

  /// Whether one operation alone takes a gradient, once, and what it computes
  /// is the gradient's new value, or goes into that: it takes its place.
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

  /// What is split over ranks as a part of a bucket cannot be had by itself.
  LogicalResult verifyWhole(Operation *op, StringRef name) {
    if (!inSplitBucket.contains(name))
      return success();
    return op->emitError(code) << "@" << name
                               << " is split over ranks as a part of its "
                                  "bucket, and cannot be read or written by "
                                  "itself";
  }

  static Update updateOf(nn::AdamWOp op) {
    return {op,
            op.getParameter(),
            op.getGrad(),
            op.getExpAvg(),
            op.getExpAvgSq(),
            op.getNewParameter(),
            op.getNewExpAvg(),
            op.getNewExpAvgSq(),
            op.getCopy()};
  }

  std::optional<Update> updateOf(Operation *op) {
    if (auto update = dyn_cast_or_null<nn::AdamWOp>(op))
      return updateOf(update);
    auto launch = dyn_cast_or_null<planir::LaunchOp>(op);
    auto kernel = launch ? symbols.lookup<planir::KernelOp>(launch.getKernel())
                         : planir::KernelOp();
    if (!kernel)
      return std::nullopt;
    Block &body = kernel.getBody().front();
    auto updates = body.getOps<nn::AdamWOp>();
    if (updates.empty())
      return std::nullopt;
    Update update = updateOf(*updates.begin());
    update.op = launch;
    for (Value *in : {&update.parameter, &update.gradient, &update.average,
                      &update.squares}) {
      auto argument = dyn_cast<BlockArgument>(*in);
      *in = argument ? launch.getOperand(argument.getArgNumber()) : Value();
    }
    for (Value *out : {&update.newParameter, &update.newAverage,
                       &update.newSquares, &update.copy}) {
      auto yielded = body.getTerminator()->getOperands();
      auto place = llvm::find(yielded, *out);
      *out = place == yielded.end()
                 ? Value()
                 : launch->getResult(place - yielded.begin());
    }
    return update;
  }

  LogicalResult verifySet(nn::SetOp set) {
    std::optional<Update> update = updateOf(makerOf(set.getValue()));
    for (StringRef state : statesOf(symbols, set.getState())) {
      StringRef role = roleOf(state);
      bool isOptimizers = role == "parameter" || role == "compute-copy" ||
                          role == "exp_avg" || role == "exp_avg_sq";
      if (isOptimizers != update.has_value())
        return set.emitError(code)
               << (update ? "writes what the optimizer computes to the "
                          : "writes what no optimizer computes to the ")
               << role << " @" << state;
    }
    if (update && failed(verifyUpdate(*update)))
      return failure();
    return success(succeeded(verifyWhole(set, set.getState())) &&
                   succeeded(verifySlot(set, set.getState(), set.getSlot())));
  }

  /// The parameters whose states of this role a value is read from, or is
  /// written to; empty when it is not.
  SmallVector<StringRef> parametersOf(StringRef name, StringRef role) {
    SmallVector<StringRef> parameters;
    for (StringRef state : statesOf(symbols, name)) {
      if (roleOf(state) != role)
        return {};
      parameters.push_back(parameterOf(state));
    }
    return parameters;
  }
  SmallVector<StringRef> parametersRead(Value value, StringRef role) {
    auto get = dyn_cast_or_null<nn::GetOp>(makerOf(value));
    return get ? parametersOf(get.getState(), role) : SmallVector<StringRef>();
  }
  SmallVector<StringRef> parametersWritten(Value value, StringRef role) {
    SmallVector<StringRef> parameters;
    if (!value)
      return parameters;
    for (Operation *user : value.getUsers()) {
      auto set = dyn_cast<nn::SetOp>(user);
      SmallVector<StringRef> more =
          set                ? parametersOf(set.getState(), role)
          : isExchange(user) ? parametersWritten(user->getResult(0), role)
                             : SmallVector<StringRef>();
      llvm::append_range(parameters, more);
    }
    return parameters;
  }

  /// What an update reads and writes belongs to the same parameters.
  LogicalResult verifyUpdate(const Update &update) {
    if (!updates.insert(update.op).second)
      return success();
    SmallVector<StringRef> parameters =
        parametersRead(update.parameter, "parameter");
    auto moments = [&](Value before, Value after, StringRef role) {
      return parametersRead(before, role) == parameters &&
             parametersWritten(after, role) == parameters;
    };
    bool right = !parameters.empty() &&
                 moments(update.parameter, update.newParameter, "parameter") &&
                 moments(update.average, update.newAverage, "exp_avg") &&
                 moments(update.squares, update.newSquares, "exp_avg_sq") &&
                 (!update.copy ||
                  parametersWritten(update.copy, "compute-copy") == parameters);
    if (!right)
      return update.op->emitError(code)
             << "does not read and write the parameters, the averages and the "
                "averages of squares of the same states, in one order";
    // Until parts of it are exchanged.
    SmallVector<StringRef> gradients =
        parametersRead(update.gradient, "gradient");
    if (!gradients.empty() && gradients != parameters)
      return update.op->emitError(code)
             << "reads the gradients of other parameters than it updates";
    for (StringRef parameter : parameters)
      ++updated[parameter];
    return success();
  }

  LogicalResult verifyUpdates() {
    for (auto state : model.getOps<nn::StateOp>()) {
      if (state.getRole() != "parameter")
        continue;
      int times = updated.lookup(state.getSymName());
      if (times != int(state.getTrainable()))
        return state.emitError(code)
               << "updated " << times << " times in a step; "
               << (state.getTrainable() ? "once is right"
                                        : "it is not trainable");
    }
    return success();
  }

  nn::ModelOp model;
  SymbolTable symbols;
  std::string code, precision;
  llvm::StringSet<> written, inSplitBucket;
  llvm::StringMap<int> updated;
  DenseSet<Operation *> updates;
};

} // namespace

LogicalResult heddle::verifyStates(nn::ModelOp model, StringRef code) {
  return StatesVerifier(model, code).run();
}
