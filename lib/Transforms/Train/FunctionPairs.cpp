//===- FunctionPairs.cpp - Forward functions that save, and backward ones -===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the derivative of a function for reverse mode, and decides by the
// recomputation policy which activations are saved.
//
//===----------------------------------------------------------------------===//

#include "Reverse.h"
#include "heddle/Transforms/Common/FunctionTypes.h"
#include "heddle/Transforms/Common/TokenRegions.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::train;

std::string CallKind::key() const {
  std::string text = nn::FuncOp(callee).getSymName().str();
  text +=
      "|" + stringifyRecompute(policy).str() + "|" + (sums ? "sums" : "") + "|";
  for (auto [isActive, isParameter] : llvm::zip(active, parameter))
    text += isParameter ? (isActive ? 'P' : 'p') : (isActive ? 'A' : 'a');
  for (bool isUsed : used)
    text += isUsed ? 'R' : 'r';
  return text;
}

FunctionPair &FunctionPairs::get(const CallKind &kind) {
  auto [entry, isNew] = pairs.try_emplace(kind.key());
  if (isNew)
    build(kind, entry->second);
  return entry->second;
}

namespace {

/// Whether the policy saves the results of the operation. Otherwise they are
/// recomputed. The policy `selective` saves results that are expensive to
/// recompute: those of products, attention and calls.
bool isSaved(nn::Recompute policy, Operation *op) {
  return policy == nn::Recompute::None || isa<nn::CallOp>(op) || isProduct(op);
}

/// Chooses values of the cloned forward pass to save. All values in `uses`,
/// which gradients read, must be computable from the saved values. Values in
/// `forgotten` are never saved.
SetVector<Value> chooseSaved(nn::Recompute policy, ArrayRef<Value> uses,
                             const DenseSet<Operation *> &forward,
                             const DenseSet<Value> &forgotten) {
  SetVector<Value> saved;
  if (policy == nn::Recompute::Full)
    return saved;
  // Without recomputation, save exactly the values that gradients read.
  if (policy == nn::Recompute::None)
    for (Value use : uses)
      if (!forgotten.contains(use))
        saved.insert(use);
  SmallVector<Value> worklist(uses);
  DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || !forward.contains(op) || !seen.insert(value).second)
      continue;
    if (!forgotten.contains(value) && isSaved(policy, op))
      saved.insert(value);
    else
      llvm::append_range(worklist, op->getOperands());
  }
  return saved;
}

/// Builds two functions for one kind of call: the forward function, which also
/// returns saved activations, and the backward function.
class PairBuilder {
public:
  PairBuilder(nn::ModelOp model, const CallKind &kind, FunctionPairs &pairs,
              FunctionPair &pair)
      : kind(kind), pairs(pairs), pair(pair), builder(kind.callee),
        symbols(model) {}

  unsigned build() {
    forward = kind.callee.clone();
    builder.insert(forward);
    name(forward, ".fwd");
    backward = builder.create<nn::FuncOp>(kind.callee.getLoc(), "",
                                          kind.callee.getFunctionType());
    name(backward, ".bwd");
    pair.numResults = forward.getResultTypes().size();
    buildGradients();
    unsigned saved = save();
    pruneArguments();
    pair.forward = forward;
    pair.backward = backward;
    return saved;
  }

private:
  /// Names a function: the name of the original function and a suffix. If the
  /// name exists in the model, it is made unique.
  void name(nn::FuncOp function, StringRef suffix) {
    function.setSymName((kind.callee.getSymName() + suffix).str());
    symbols.insert(function);
  }

  Value addArgument(Type type, BackwardArgument source) {
    pair.arguments.push_back(source);
    return block->addArgument(type, backward.getLoc());
  }

  void buildGradients();
  void returnGradients(Reverse &reverse);
  unsigned save();
  DenseSet<Value> madeInChunks();
  void pruneArguments();

  CallKind kind;
  FunctionPairs &pairs;
  FunctionPair &pair;
  OpBuilder builder;
  SymbolTable symbols;
  nn::FuncOp forward, backward;
  Block *block = nullptr;
  /// Maps values of `forward` to their clones in `backward`.
  IRMapping clones;
  DenseSet<Operation *> clonedOps;
};

void PairBuilder::buildGradients() {
  using Kind = BackwardArgument::Kind;
  Block &source = forward.getBody().front();
  block = builder.createBlock(&backward.getBody());
  SmallVector<Value> seeds;
  DenseMap<Value, Value> sums;
  for (auto [index, argument] : llvm::enumerate(source.getArguments())) {
    clones.map(argument, addArgument(argument.getType(),
                                     {Kind::Forward, unsigned(index)}));
    if (kind.active[index])
      seeds.push_back(argument);
    if (kind.sums && kind.parameter[index] && kind.active[index])
      sums[argument] = addArgument(nn::gradientType(argument.getType()),
                                   {Kind::Sum, unsigned(index)});
  }
  auto keyOf = [&](Value value) -> Reverse::Key {
    auto argument = dyn_cast<BlockArgument>(value);
    bool parameter = argument && argument.getOwner() == &source &&
                     kind.parameter[argument.getArgNumber()];
    return parameter ? value.getAsOpaquePointer() : nullptr;
  };
  Reverse reverse(
      builder, pairs, keyOf,
      [&](Value parameter) { return sums.lookup(parameter); }, kind.sums);
  reverse.findActive(source, seeds);
  reverse.rewriteCalls(source);

  SmallVector<Operation *> forwardOps;
  for (Operation &op : source.without_terminator()) {
    forwardOps.push_back(&op);
    clonedOps.insert(builder.clone(op, clones));
  }
  for (auto [index, result] :
       llvm::enumerate(source.getTerminator()->getOperands()))
    if (kind.used[index] && reverse.isActive(result))
      reverse.add(result, addArgument(result.getType(),
                                      {Kind::ResultGrad, unsigned(index)}));
  reverse.run(forwardOps, clones);
  returnGradients(reverse);
}

void PairBuilder::returnGradients(Reverse &reverse) {
  SmallVector<Value> results;
  for (BlockArgument argument : forward.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (!kind.active[index])
      continue;
    Value grad = kind.parameter[index]
                     ? reverse.sumOf(argument.getAsOpaquePointer())
                     : reverse.gradientOf(argument);
    if (!grad)
      continue;
    results.push_back(grad);
    pair.gradients.push_back(index);
  }
  builder.create<nn::ReturnOp>(backward.getLoc(), results);
}

/// Cloned values that are not saved: `spmd-chunk-tokens` will compute them for
/// a few tokens at a time, so that they never need memory for all tokens. To
/// save them would need this memory.
DenseSet<Value> PairBuilder::madeInChunks() {
  DenseSet<Value> values;
  const dist::Strategy &strategy =
      kind.callee->getParentOfType<nn::ModelOp>().getStrategy().getValue();
  if (strategy.chunkTokens == 0)
    return values;
  int64_t ranks = strategy.data * strategy.sequence;
  for (const TokenRegion &region : findTokenRegions(forward.getBody().front()))
    if (region.rows * region.tokens > strategy.chunkTokens * ranks)
      for (Value value : region.inner)
        values.insert(clones.lookup(value));
  return values;
}

/// Chooses the values to save. The forward function returns them, and the
/// backward function gets them as arguments. Returns their number.
unsigned PairBuilder::save() {
  SmallVector<Value> uses;
  DenseMap<Value, Value> originals;
  for (auto &[original, clone] : clones.getValueMap()) {
    if (!clone.getDefiningOp())
      continue;
    originals[clone] = original;
  }
  for (Operation *op : llvm::map_range(*block, [](Operation &o) { return &o; }))
    if (clonedOps.contains(op))
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) {
              return !clonedOps.contains(user);
            }))
          uses.push_back(result);

  auto terminator = cast<nn::ReturnOp>(forward.getBody().back().back());
  SetVector<Value> saved =
      chooseSaved(kind.policy, uses, clonedOps, madeInChunks());
  for (Value value : saved) {
    Value original = originals.lookup(value);
    auto returned = llvm::find(terminator.getOperands(), original);
    unsigned index = std::distance(terminator.getOperands().begin(), returned);
    if (returned == terminator.getOperands().end())
      terminator.getOperandsMutable().append(original);
    value.replaceAllUsesWith(
        addArgument(value.getType(), {BackwardArgument::Kind::Saved, index}));
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (clonedOps.contains(&op) && op.use_empty())
      op.erase();
  updateFunctionType(forward);
  return saved.size();
}

void PairBuilder::pruneArguments() {
  SmallVector<BackwardArgument> kept;
  BitVector unused(block->getNumArguments());
  for (BlockArgument argument : block->getArguments()) {
    if (argument.use_empty())
      unused.set(argument.getArgNumber());
    else
      kept.push_back(pair.arguments[argument.getArgNumber()]);
  }
  block->eraseArguments(unused);
  pair.arguments = kept;
  updateFunctionType(backward);
}

} // namespace

void FunctionPairs::build(const CallKind &kind, FunctionPair &pair) {
  numSaved += PairBuilder(model, kind, *this, pair).build();
}
