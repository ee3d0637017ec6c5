//===- Fragments.cpp - Assigns operations to fragments --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fragments.h"
#include "dialects/Pipe/Schedule.h"
#include "heddle/Transforms/Shard/Shardings.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::pipe;

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

/// Whether an operation is repeated in each fragment (forward or backward pass
/// of a stage) that needs its result, because this is cheaper than to send or
/// save the result.
static bool isMadeAnew(Operation *op,
                       const DenseMap<Operation *, int64_t> &numbers) {
  if (op->hasTrait<nn::Rematerializable>() || isa<dist::RankOp>(op) ||
      isa<arith::ArithDialect>(op->getDialect()))
    return true;
  return isa<dist::ReshardOp, nn::UnpackOp>(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           Operation *definition = operand.getDefiningOp();
           return !definition || !numbers.contains(definition);
         });
}

LogicalResult Fragments::assignCalls() {
  DenseMap<Attribute, int> seen;
  for (auto call : body.getOps<nn::CallOp>()) {
    auto stage = stages.find(call.getPathAttr());
    if (stage == stages.end())
      return call.emitError("H0905: is in no stage");
    int before = seen[call.getPathAttr()]++;
    if (before > (!backward ? 0 : numbering.halves ? 2 : 1))
      return call.emitError("H0202: runs the instance ")
             << call.getPathAttr()
             << " once more; a stage runs it once in each fragment";
    if (before == 0) {
      numbers[call] = stage->second;
      firstForward = firstForward ? firstForward : call.getOperation();
      lastForward = call;
    } else {
      numbers[call] = before == 1 ? numbering.backwardOf(stage->second)
                                  : numbering.weightOf(stage->second);
      firstBackward = firstBackward ? firstBackward : call.getOperation();
    }
  }
  return success();
}

void Fragments::assignOther(Operation *op, bool beforeForward,
                            bool afterForward, bool beforeBackward) {
  int64_t last = -1;
  for (Value operand : op->getOperands())
    if (Operation *definition = operand.getDefiningOp())
      last = std::max(last, of(definition));
  int64_t firstOfBackward = numbering.stages();
  bool follows = isa<nn::KeepOp, nn::SetOp>(op) && last >= 0;
  if (follows)
    numbers[op] = last;
  else if (beforeForward)
    numbers[op] = 0;
  else if (afterForward && beforeBackward)
    numbers[op] = backward ? firstOfBackward : firstOfBackward - 1;
  else if (last < (afterForward ? firstOfBackward : 0))
    open.push_back(op);
  else
    numbers[op] = last;
}

/// Some operations could be in any fragment (forward or backward pass of a
/// stage). Assigns each of them to the first fragment that uses its results.
void Fragments::assignByUsers() {
  for (Operation *op : llvm::reverse(open)) {
    int64_t first = -1;
    for (Operation *user : op->getUsers())
      if (int64_t number = of(user); number >= 0)
        first = first < 0 ? number : std::min(first, number);
    numbers[op] = first < 0 ? numbering.backwardOf(0) : first;
  }
}

LogicalResult Fragments::assign() {
  if (failed(assignCalls()))
    return failure();
  bool forward = false, afterForward = false, inBackward = false;
  for (Operation &op : body.without_terminator()) {
    forward |= &op == firstForward;
    inBackward |= &op == firstBackward;
    if (!isa<nn::CallOp>(op) && !isMadeAnew(&op, numbers))
      assignOther(&op, !forward, afterForward, !inBackward);
    afterForward |= &op == lastForward;
  }
  assignByUsers();
  if (failed(findPassedSums()))
    return failure();
  return checkOrder();
}

LogicalResult Fragments::checkOrder() {
  for (Operation &op : body.without_terminator()) {
    int64_t here = of(&op);
    for (OpOperand &operand : op.getOpOperands()) {
      if (passedThrough(operand))
        continue;
      Operation *definition = operand.get().getDefiningOp();
      int64_t made = definition ? of(definition) : -1;
      bool tooLate = made > here || (numbering.isWeight(made) && made != here);
      if (here >= 0 && tooLate)
        return op.emitError("H0202: stage ")
               << numbering.stageOf(here) << " reads what stage "
               << numbering.stageOf(made) << " makes later";
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Gradients to which several stages add summands
//===----------------------------------------------------------------------===//

const PassedSum *Fragments::passedThrough(OpOperand &operand) const {
  for (const PassedSum &sum : sums)
    if (sum.operand == &operand)
      return &sum;
  return nullptr;
}

Value Fragments::sumThrough(OpOperand &operand) const {
  Operation *op = operand.getOwner();
  if (isa<nn::AddOp>(op))
    return op->getResult(0);
  for (auto &[init, result] : nn::initsOf(op))
    if (init[0].getOperandNumber() == operand.getOperandNumber())
      return result;
  auto call = dyn_cast<nn::CallOp>(op);
  if (!call)
    return {};
  // The called layer adds to this argument. Follow the sum through all
  // additions in the layer, to the layer's result that is the final sum.
  auto callee = symbols.lookup<nn::FuncOp>(call.getCallee());
  Value sum = callee.getArgument(operand.getOperandNumber());
  bool isAdded = false;
  while (sum && sum.hasOneUse()) {
    OpOperand &use = *sum.getUses().begin();
    if (isAdded && isa<nn::ReturnOp>(use.getOwner()))
      return call.getResult(use.getOperandNumber());
    bool moves = isa<dist::ReshardOp>(use.getOwner());
    sum = moves ? use.getOwner()->getResult(0) : sumThrough(use);
    isAdded |= !moves;
  }
  return {};
}

/// The operations through which a gradient gets to the nn.set that writes it to
/// a state, including the nn.set. Empty if the gradient is not written to
/// exactly one state.
static SmallVector<Operation *> chainOf(Value gradient) {
  SmallVector<Operation *> chain;
  while (gradient.hasOneUse()) {
    Operation *user = *gradient.getUsers().begin();
    chain.push_back(user);
    if (isa<nn::SetOp>(user))
      return chain;
    auto pack = dyn_cast<nn::PackOp>(user);
    bool goesOn = isa<dist::ReshardOp, nn::AddOp>(user) ||
                  (pack && pack.getMembers().size() == 1);
    if (!goesOn)
      return {};
    gradient = user->getResult(0);
  }
  return {};
}

/// Returns the value to which the first summand of `sum` is added, if this
/// value is the read of a state, or zeros. Otherwise returns null.
Value Fragments::startOf(Value sum) const {
  while (Operation *op = sum.getDefiningOp()) {
    if (op->hasTrait<nn::Rematerializable>())
      return sum;
    if (isa<nn::AddOp>(op))
      return {};
    Value before;
    for (OpOperand &operand : op->getOpOperands())
      if (isa<dist::ReshardOp>(op) || sumThrough(operand) == sum)
        before = operand.get();
    if (!before)
      return {};
    sum = before;
  }
  return {};
}

/// Follows a sum through the additions of further summands, and returns the
/// result of the last addition. An addition is an nn.add, a call of a layer, or
/// another operation that adds to an operand. An nn.add is followed only if the
/// sum comes from another fragment (backward pass of a stage) than the nn.add.
Value Fragments::endOf(Value sum) const {
  while (sum.hasOneUse()) {
    OpOperand &use = *sum.getUses().begin();
    bool isLink = of(use.getOwner()) != of(sum.getDefiningOp());
    Value next =
        isLink || !isa<nn::AddOp>(use.getOwner()) ? sumThrough(use) : Value();
    if (!next)
      return sum;
    sum = next;
  }
  return sum;
}

/// The name of the parameter whose gradient `set` writes, either to the
/// gradient's own state or to a bucket of one gradient. "" if `set` writes
/// something else.
static std::string parameterOf(nn::SetOp set, const SymbolTable &symbols) {
  Operation *symbol = symbols.lookup(set.getState());
  if (auto bucket = dyn_cast<nn::BucketOp>(symbol);
      bucket && bucket.getMembers().size() == 1)
    symbol = symbols.lookup(
        cast<FlatSymbolRefAttr>(bucket.getMembers()[0]).getValue());
  auto state = dyn_cast<nn::StateOp>(symbol);
  return state && state.getRole() == nn::StateRole::Gradient
             ? state.getParameter()->str()
             : "";
}

LogicalResult Fragments::addPassedSum(OpOperand &operand) {
  PassedSum sum;
  sum.operand = &operand;
  sum.total = endOf(sumThrough(operand));
  sum.chain = chainOf(sum.total);
  if (sum.chain.empty())
    return success();
  auto set = cast<nn::SetOp>(sum.chain.back());
  std::string parameter = parameterOf(set, symbols);
  if (parameter.empty())
    return success();
  sum.start = startOf(operand.get());
  int64_t from = numbering.rankOf(of(operand.get().getDefiningOp()));
  int64_t to = numbering.rankOf(of(operand.getOwner()));
  // Whether the gradient is added to the value of a state. This is needed if
  // one rank runs both virtual stages that use the parameter: the second
  // stage's backward pass must add to the sum that the first one's has stored.
  bool adds = isa_and_nonnull<nn::GetOp>(sum.start ? sum.start.getDefiningOp()
                                                   : nullptr) ||
              llvm::any_of(sum.chain, llvm::IsaPred<nn::AddOp>);
  if (from == to && !adds)
    return operand.getOwner()->emitError("H0202: the parameter \"")
           << parameter
           << "\" is used by two virtual stages of one rank: accumulate over "
              "several micro-batches, or take fewer virtual stages";
  auto name = StringAttr::get(set.getContext(), parameter);
  SharedSum &all = shared[name];
  all.state = set.getStateAttr();
  for (int64_t rank : {from, to})
    if (!llvm::is_contained(all.ranks, rank))
      all.ranks.push_back(rank);
  llvm::sort(all.ranks);
  sums.push_back(sum);
  return success();
}

LogicalResult Fragments::findPassedSums() {
  for (Operation &op : body.without_terminator())
    for (OpOperand &operand : op.getOpOperands()) {
      Operation *definition = operand.get().getDefiningOp();
      int64_t made = definition ? of(definition) : -1;
      if (made >= numbering.stages() && of(&op) >= 0 && made != of(&op) &&
          sumThrough(operand) && failed(addPassedSum(operand)))
        return failure();
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Routes
//===----------------------------------------------------------------------===//

std::string SavedStates::take(int64_t keeper, Type type,
                              dist::TensorShardingAttr sharding) {
  Key key = {keeper, type.getAsOpaquePointer(), sharding.getAsOpaquePointer()};
  std::vector<std::string> &known = names[key];
  size_t index = used[key]++;
  if (index == known.size())
    known.push_back("saved." + std::to_string(keeper) + "." +
                    std::to_string(counts[keeper]++));
  return known[index];
}

Routes::Routes(const Fragments &fragments, SavedStates *saved)
    : fragments(fragments), saved(saved) {
  for (Operation &op : fragments.body.without_terminator())
    if (int64_t here = fragments.of(&op); here >= 0)
      for (OpOperand &operand : op.getOpOperands())
        if (!fragments.passedThrough(operand))
          require(operand.get(), here);
}

void Routes::require(Value value, int64_t fragment) {
  const FragmentNumbering &numbering = fragments.numbering;
  Operation *definition = value.getDefiningOp();
  int64_t made = definition ? fragments.of(definition) : -1;
  if (made < 0 || made == fragment || arrivals.contains({value, fragment}))
    return;
  Arrival arrival;
  int64_t stage = numbering.stageOf(fragment);
  bool fromForward = !numbering.isForward(fragment) && made <= stage;
  bool inSlot = fromForward || numbering.isWeight(fragment);
  arrival.from = fromForward ? stage
                 : inSlot    ? numbering.backwardOf(stage)
                             : fragment - 1;
  require(value, arrival.from);
  Departure &departure = departures[{value, arrival.from}];
  if (saved && departure.state.empty())
    departure.state =
        saved->take(numbering.stageOf(arrival.from), value.getType(),
                    shard::shardingOf(value, fragments.getSymbols()));
  if (!inSlot) {
    unsigned number = channels[fragment]++;
    arrival.channel = (numbering.isForward(fragment) ? "F" : "B") +
                      std::to_string(stage) +
                      (number ? "." + std::to_string(number) : "");
    departure.channel = arrival.channel;
    departure.delta =
        numbering.rankOf(fragment) - numbering.rankOf(arrival.from);
  }
  arrivals[{value, fragment}] = arrival;
}
