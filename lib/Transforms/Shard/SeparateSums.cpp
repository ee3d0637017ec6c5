//===- SeparateSums.cpp - Takes sums over micro-batches out of products ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Removes from the backward pass the addition of a gradient to the gradients of
// earlier micro-batches. With ZeRO 2 and 3 a rank has only its shard of the
// sum, so the addition must come after the reduce-scatter.
//
//===----------------------------------------------------------------------===//

#include "ZeroStorage.h"
#include "heddle/Settings/LayerDrop.h"
#include "heddle/Transforms/Common/Programs.h"
#include "heddle/Transforms/Shard/Passes.h"
#include "heddle/Transforms/Shard/Shardings.h"
#include <map>

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_SHARDSEPARATESUMS
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

/// Operations of the backward pass that compute a gradient may have an operand
/// to which they add the gradient. This operand (an init) holds the gradients
/// of earlier micro-batches. The Separator removes it.
class Separator {
public:
  explicit Separator(nn::ModelOp model) : model(model), symbols(model) {}

  /// Removes all uses of the values `starts`, which are gradients of earlier
  /// micro-batches. Emits an error if an operation uses such a value in another
  /// way than to add a gradient to it.
  LogicalResult separate(ArrayRef<Value> starts);
  /// Erases functions that are no longer called because copies have replaced
  /// them. Each copy gets the name of its original.
  void finish();

private:
  LogicalResult separate(OpOperand &use);
  FailureOr<nn::FuncOp> without(nn::FuncOp function,
                                const SmallVector<unsigned> &arguments);

  nn::ModelOp model;
  SymbolTable symbols;
  std::map<std::pair<std::string, SmallVector<unsigned>>, nn::FuncOp> made;
};

} // namespace

/// Changes what the results of a skipped call are, before the operands
/// `numbers` are erased. A result that was one of them is then zero: a skipped
/// layer adds nothing to the gradient.
static void passZeros(nn::CallOp call, ArrayRef<unsigned> numbers) {
  SmallVector<int64_t> passes(*call.getPasses());
  for (int64_t &operand : passes) {
    if (operand < 0)
      continue;
    const auto *next = llvm::lower_bound(numbers, unsigned(operand));
    bool isErased = next != numbers.end() && *next == unsigned(operand);
    operand =
        isErased ? nn::CallOp::passesZeros : operand - (next - numbers.begin());
  }
  call.setPasses(passes);
}

LogicalResult Separator::separate(ArrayRef<Value> starts) {
  llvm::MapVector<Operation *, SmallVector<unsigned>> calls;
  for (Value start : starts)
    for (OpOperand &use : llvm::make_early_inc_range(start.getUses())) {
      if (isa<nn::CallOp>(use.getOwner()))
        calls[use.getOwner()].push_back(use.getOperandNumber());
      else if (failed(separate(use)))
        return failure();
    }
  for (auto &[op, numbers] : calls) {
    llvm::sort(numbers);
    auto call = cast<nn::CallOp>(op);
    auto callee = symbols.lookup<nn::FuncOp>(call.getCallee());
    FailureOr<nn::FuncOp> function = without(callee, numbers);
    if (failed(function))
      return failure();
    call.setCallee(function->getSymName());
    if (call.getWhen())
      passZeros(call, numbers);
    for (unsigned number : llvm::reverse(numbers))
      call->eraseOperand(number);
  }
  return success();
}

/// Removes an operand that holds the gradients of earlier micro-batches from an
/// operation that is not a call. The operation must add a gradient to this
/// operand. Emits an error if it uses the operand in any other way.
LogicalResult Separator::separate(OpOperand &use) {
  Operation *op = use.getOwner();
  if (auto add = dyn_cast<nn::AddOp>(op)) {
    add.replaceAllUsesWith(use.getOperandNumber() == 0 ? add.getRhs()
                                                       : add.getLhs());
    add.erase();
    return success();
  }
  for (nn::Init &init : nn::initsOf(op))
    if (&init.operand[0] == &use) {
      init.operand.clear();
      return success();
    }
  return op->emitError("H0904: reads a gradient for something else than to add "
                       "to it");
}

/// Returns a copy of the function without the arguments `arguments`, to which
/// the original function adds gradients.
FailureOr<nn::FuncOp>
Separator::without(nn::FuncOp function,
                   const SmallVector<unsigned> &arguments) {
  auto [known, isNew] =
      made.try_emplace({function.getSymName().str(), arguments});
  if (!isNew)
    return known->second;
  nn::FuncOp copy = known->second = function.clone();
  symbols.insert(copy, function->getIterator());
  Block &body = copy.getBody().front();
  BitVector erased(body.getNumArguments());
  SmallVector<Value> starts;
  for (unsigned argument : arguments) {
    erased.set(argument);
    starts.push_back(body.getArgument(argument));
  }
  if (failed(separate(starts)))
    return failure();
  body.eraseArguments(erased);
  copy.setFunctionType(FunctionType::get(
      copy.getContext(), body.getArgumentTypes(), copy.getResultTypes()));
  return copy;
}

void Separator::finish() {
  eraseUncalled(model);
  SymbolTable left(model);
  for (auto &[key, function] : made)
    if (!left.lookup(key.first))
      (void)left.rename(function, key.first);
}

namespace {

struct SeparateSums : heddle::impl::ShardSeparateSumsBase<SeparateSums> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    FailureOr<dist::MeshOp> mesh = shard::meshOf(model);
    if (failed(mesh))
      return signalPassFailure();
    if (!config::sumsGradients(model.getStrategy().getValue()) ||
        !shard::ZeroStorage(model, *mesh).splits(nn::StateRole::Gradient))
      return;
    if (failed(separate(model)))
      return signalPassFailure();
  }

private:
  /// Separates the sums of all train programs together, because they may call
  /// the same functions.
  LogicalResult separate(nn::ModelOp model) {
    SymbolTable symbols(model);
    SmallVector<nn::GetOp> gets;
    SmallVector<nn::SetOp> sets;
    auto isGradient = [&](StringRef name) {
      auto state = symbols.lookup<nn::StateOp>(name);
      return state && state.getRole() == nn::StateRole::Gradient;
    };
    model.walk([&](nn::MicroBatchesOp loop) {
      if (loop->getParentOfType<nn::StepOp>().getKind() !=
          nn::ProgramKind::Train)
        return;
      for (auto get : loop.getBody().getOps<nn::GetOp>())
        if (isGradient(get.getState()))
          gets.push_back(get);
      for (auto set : loop.getBody().getOps<nn::SetOp>())
        if (isGradient(set.getState()))
          sets.push_back(set);
    });
    SmallVector<Value> starts(gets.begin(), gets.end());
    Separator separator(model);
    if (failed(separator.separate(starts)))
      return failure();
    separator.finish();
    llvm::for_each(gets, [](nn::GetOp get) { get.erase(); });
    for (nn::SetOp set : sets) {
      OpBuilder builder(set);
      Value sum = set.getValue();
      Value before = builder.create<nn::GetOp>(set.getLoc(), sum.getType(),
                                               set.getState());
      set.getValueMutable().assign(builder.create<nn::AddOp>(
          set.getLoc(), before, sum, /*shardings=*/nullptr));
      ++numSeparated;
    }
    return success();
  }
};

} // namespace
