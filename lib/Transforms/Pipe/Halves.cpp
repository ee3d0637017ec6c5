//===- Halves.cpp - Backward passes in halves, for zb-h1 ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Halves.h"
#include "heddle/Transforms/Shard/Shardings.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;

namespace {

/// One of the two functions that a backward function is split into.
struct Half {
  nn::FuncOp function;
  /// The indices, among the arguments of the whole function, of the arguments
  /// that this half has.
  SmallVector<unsigned> arguments;
};

/// The two halves of a backward function. The function `input` computes all
/// results but gradients of weights; the function `weight` computes gradients
/// of weights. `input` also returns the values that `weight` needs: they are
/// the last results of `input` and the last arguments of `weight`.
struct Halves {
  Half input, weight;
  BitVector weights; ///< The results that the function `weight` computes.
};

class BackwardSplitter {
public:
  explicit BackwardSplitter(SymbolTable &symbols) : symbols(symbols) {}
  void split(nn::CallOp call);

private:
  bool isGradient(Value value);
  const Halves &halvesOf(nn::FuncOp function, const BitVector &weights);
  Half write(nn::FuncOp function, StringRef suffix,
             function_ref<bool(Operation *)> has, ArrayRef<Value> taken,
             ArrayRef<Value> given);

  SymbolTable &symbols;
  llvm::StringMap<Halves> known;
};

/// Whether the value has no other use than to be written to the state of a
/// gradient.
bool BackwardSplitter::isGradient(Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (isa<nn::PackOp, nn::AddOp, dist::ReshardOp>(user))
      return isGradient(user->getResult(0));
    auto set = dyn_cast<nn::SetOp>(user);
    if (!set)
      return false;
    Operation *state = symbols.lookup(set.getState());
    if (auto bucket = dyn_cast<nn::BucketOp>(state))
      state = symbols.lookup(
          cast<FlatSymbolRefAttr>(bucket.getMembers()[0]).getValue());
    return cast<nn::StateOp>(state).getRole() == nn::StateRole::Gradient;
  });
}

Half BackwardSplitter::write(nn::FuncOp function, StringRef suffix,
                             function_ref<bool(Operation *)> has,
                             ArrayRef<Value> taken, ArrayRef<Value> given) {
  Half half;
  OpBuilder builder(function);
  SmallVector<Attribute> argumentShardings, resultShardings;
  SmallVector<Value> arguments;
  auto shardingOf = [&](Value value) -> Attribute {
    if (auto sharding = shard::shardingOf(value, symbols))
      return sharding;
    return builder.getUnitAttr();
  };
  for (BlockArgument argument : function.getArguments()) {
    bool used = llvm::is_contained(given, argument) ||
                llvm::any_of(argument.getUsers(), has);
    if (!used)
      continue;
    half.arguments.push_back(argument.getArgNumber());
    arguments.push_back(argument);
  }
  llvm::append_range(arguments, taken);
  for (Value argument : arguments)
    argumentShardings.push_back(shardingOf(argument));
  for (Value result : given)
    resultShardings.push_back(shardingOf(result));
  half.function = builder.create<nn::FuncOp>(
      function.getLoc(), (function.getSymName() + suffix).str(),
      builder.getFunctionType(ValueRange(arguments).getTypes(),
                              ValueRange(given).getTypes()));
  symbols.insert(half.function);
  if (function.getArgShardings()) {
    half.function.setArgShardingsAttr(builder.getArrayAttr(argumentShardings));
    half.function.setResultShardingsAttr(builder.getArrayAttr(resultShardings));
  }
  SmallVector<Location> places(arguments.size(), function.getLoc());
  Block *block = builder.createBlock(&half.function.getBody(), {},
                                     ValueRange(arguments).getTypes(), places);
  IRMapping mapping;
  mapping.map(arguments, block->getArguments());
  for (Operation &op : function.getBody().front().without_terminator())
    if (has(&op))
      builder.clone(op, mapping);
  SmallVector<Value> results = llvm::map_to_vector(
      given, [&](Value value) { return mapping.lookup(value); });
  builder.create<nn::ReturnOp>(function.getLoc(), results);
  return half;
}

const Halves &BackwardSplitter::halvesOf(nn::FuncOp function,
                                         const BitVector &weights) {
  std::string key = function.getSymName().str();
  for (unsigned number : weights.set_bits())
    key += "|" + std::to_string(number);
  auto [entry, isNew] = known.try_emplace(key);
  Halves &halves = entry->second;
  if (!isNew)
    return halves;
  Block &body = function.getBody().front();
  auto results = body.getTerminator()->getOperands();
  // The operations that compute the gradients for which other layers wait. They
  // are moved to the function whose name ends in `.input`.
  DenseSet<Operation *> early;
  SmallVector<Value> worklist;
  for (auto [number, result] : llvm::enumerate(results))
    if (!weights[number])
      worklist.push_back(result);
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (op && early.insert(op).second)
      llvm::append_range(worklist, op->getOperands());
  }
  halves.weights = weights;
  SmallVector<Value> first, second;
  for (auto [number, result] : llvm::enumerate(results)) {
    Operation *definition = result.getDefiningOp();
    if (!definition || early.contains(definition))
      halves.weights.reset(number);
    (halves.weights[number] ? second : first).push_back(result);
  }
  llvm::SetVector<Value> between;
  for (Operation &op : body.without_terminator())
    if (!early.contains(&op))
      for (Value operand : op.getOperands())
        if (early.contains(operand.getDefiningOp()))
          between.insert(operand);
  llvm::append_range(first, between);
  halves.input = write(
      function, ".input", [&](Operation *op) { return early.contains(op); }, {},
      first);
  halves.weight = write(
      function, ".weight",
      [&](Operation *op) {
        return !early.contains(op) && op != body.getTerminator();
      },
      between.getArrayRef(), second);
  return halves;
}

/// Lets `made`, a result of a call of `half`, have the same value as `result`,
/// the result that it replaces, if the calls are skipped.
static void passAlike(OpResult result, const Half &half, OpResult made) {
  auto original = cast<nn::CallOp>(result.getOwner());
  auto call = cast<nn::CallOp>(made.getOwner());
  int64_t passed = (*original.getPasses())[result.getResultNumber()];
  if (passed >= 0) {
    const auto *operand = llvm::find(half.arguments, passed);
    passed = operand == half.arguments.end() ? nn::CallOp::passesNothing
                                             : operand - half.arguments.begin();
  }
  SmallVector<int64_t> passes(*call.getPasses());
  passes[made.getResultNumber()] = passed;
  call.setPasses(passes);
}

void BackwardSplitter::split(nn::CallOp call) {
  BitVector weights(call.getNumResults());
  for (OpResult result : call.getResults())
    if (isGradient(result))
      weights.set(result.getResultNumber());
  auto callee = symbols.lookup<nn::FuncOp>(call.getCallee());
  const Halves &halves = halvesOf(callee, weights);
  OpBuilder builder(call);
  auto create = [&](const Half &half, ValueRange taken) {
    nn::FuncOp function = half.function;
    SmallVector<Value> operands =
        llvm::map_to_vector(half.arguments, [&](unsigned number) {
          return call.getOperand(number);
        });
    llvm::append_range(operands, taken);
    auto created = builder.create<nn::CallOp>(call.getLoc(), function, operands,
                                              call.getPathAttr());
    if (call.getWhen()) {
      created.setWhenAttr(call.getWhenAttr());
      created.setPasses(SmallVector<int64_t>(created.getNumResults(),
                                             nn::CallOp::passesNothing));
    }
    return created;
  };
  unsigned numFirst = call.getNumResults() - halves.weights.count();
  nn::CallOp input = create(halves.input, {});
  nn::CallOp weight =
      create(halves.weight, input.getResults().drop_front(numFirst));
  unsigned first = 0, second = 0;
  for (OpResult result : call.getResults()) {
    bool isLate = halves.weights[result.getResultNumber()];
    OpResult made =
        isLate ? weight->getResult(second++) : input->getResult(first++);
    if (call.getWhen())
      passAlike(result, isLate ? halves.weight : halves.input, made);
    result.replaceAllUsesWith(made);
  }
  call.erase();
}

} // namespace

void heddle::pipe::splitBackward(SymbolTable &symbols, Block &body) {
  BackwardSplitter splitter(symbols);
  DenseSet<Attribute> seen;
  SmallVector<nn::CallOp> calls;
  for (auto call : body.getOps<nn::CallOp>())
    if (!seen.insert(call.getPathAttr()).second)
      calls.push_back(call);
  for (nn::CallOp call : calls)
    splitter.split(call);
}
