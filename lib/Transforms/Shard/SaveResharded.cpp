//===- SaveResharded.cpp - Nothing is exchanged a second time -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves all-to-alls out of the backward pass. The backward pass may need a
// saved activation in another sharding than the one in which the forward pass
// saves it. If the forward pass computes the activation in the needed sharding,
// too, this pass makes it save that value instead, and the all-to-all is
// removed.
//
//===----------------------------------------------------------------------===//

#include "Reasons.h"
#include "heddle/Transforms/Common/FunctionTypes.h"
#include "heddle/Transforms/Shard/Passes.h"

using namespace mlir;
using namespace heddle;
using dist::TensorShardingAttr;

namespace heddle {
#define GEN_PASS_DEF_SHARDSAVERESHARDED
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

/// All mesh axes that split a dimension in this sharding.
SmallVector<Attribute> axesOf(TensorShardingAttr sharding) {
  SmallVector<Attribute> axes;
  for (auto dim : sharding.getDims().getAsRange<ArrayAttr>())
    llvm::append_range(axes, dim);
  return axes;
}

/// Whether the reshard only moves mesh axes from one dimension to another (an
/// all-to-all), so that a rank's shard is equally large before and after it.
bool isExchange(dist::ReshardOp reshard) {
  auto from = axesOf(reshard.getFrom()), to = axesOf(reshard.getTo());
  return reshard.getFrom().getUnreduced().empty() && from.size() == to.size() &&
         llvm::all_of(to, [&](Attribute axis) {
           return llvm::is_contained(from, axis);
         });
}

/// An activation that the forward function `maker` returns, so that another
/// function can read it.
struct Saved {
  nn::FuncOp maker;
  unsigned result = 0;
  bool operator==(const Saved &other) const {
    return maker == other.maker && result == other.result;
  }
};

/// Changes the functions of a model, so that they save activations in the
/// sharding in which other functions read them.
class ModelRewriter {
public:
  ModelRewriter(nn::ModelOp model, shard::Reasons *reasons)
      : model(model), symbols(model), reasons(reasons) {
    model.walk([&](nn::CallOp call) {
      calls[symbols.lookup<nn::FuncOp>(call.getCallee())].push_back(call);
    });
  }

  /// Returns the number of reshards that were removed.
  unsigned run() {
    unsigned count = 0;
    for (auto function : model.getOps<nn::FuncOp>())
      for (auto reshard : llvm::make_early_inc_range(
               function.getBody().getOps<dist::ReshardOp>()))
        count += isExchange(reshard) && save(function, reshard);
    return count;
  }

private:
  /// Finds out which function computes the argument `argument` of `function`:
  /// all calls of `function` must pass the same result of the same function for
  /// it. Returns this function and the index of the result. Returns nullopt if
  /// calls pass different results, or other values.
  std::optional<Saved> makerOf(nn::FuncOp function, BlockArgument argument) {
    std::optional<Saved> found;
    for (nn::CallOp call : calls.lookup(function)) {
      auto result =
          dyn_cast<OpResult>(call.getOperand(argument.getArgNumber()));
      auto maker = result ? dyn_cast<nn::CallOp>(result.getOwner()) : nullptr;
      if (!maker)
        return std::nullopt;
      Saved saved{symbols.lookup<nn::FuncOp>(maker.getCallee()),
                  result.getResultNumber()};
      if (found && !(*found == saved))
        return std::nullopt;
      found = saved;
    }
    return found;
  }

  /// Applying the reshard `wanted` to `value` would give some result. Looks for
  /// an existing value that equals this result: either the input of the reshard
  /// that computes `value`, or the output of another reshard of `value`.
  /// Returns null if there is none.
  static Value exchanged(Value value, dist::ReshardOp wanted) {
    auto fits = [&](dist::ReshardOp other) {
      return other && other.getSegmentsAttr() == wanted.getSegmentsAttr();
    };
    auto back = value.getDefiningOp<dist::ReshardOp>();
    if (fits(back) && back.getFrom() == wanted.getTo())
      return back.getInput();
    for (Operation *user : value.getUsers())
      if (auto other = dyn_cast<dist::ReshardOp>(user);
          fits(other) && other.getTo() == wanted.getTo())
        return other.getOutput();
    return {};
  }

  /// Removes `reshard`, the reshard of an argument of `function`. Instead, the
  /// function that computes the argument's value also returns it resharded.
  /// Returns false if that is not possible.
  bool save(nn::FuncOp function, dist::ReshardOp reshard) {
    auto argument = dyn_cast<BlockArgument>(reshard.getInput());
    std::optional<Saved> saved;
    if (argument)
      saved = makerOf(function, argument);
    if (!saved)
      return false;
    Operation *terminator = saved->maker.getBody().front().getTerminator();
    OpOperand &returned = terminator->getOpOperand(saved->result);
    Value value = exchanged(returned.get(), reshard);
    if (!value)
      return false;
    if (reasons)
      reasons->add(function.getSymName() + " argument " +
                       Twine(argument.getArgNumber()),
                   reshard.getTo(),
                   "as " + saved->maker.getSymName() + " exchanged it" +
                       " (shard-save-resharded)");
    bool isNeeded = !argument.hasOneUse();
    for (nn::CallOp call : calls[function])
      isNeeded |= !call.getOperand(argument.getArgNumber()).hasOneUse();
    if (isNeeded) {
      addResult(*saved, value, reshard.getTo());
      argument = addArgument(function, argument, reshard.getTo());
    } else {
      returned.set(value);
      saved->maker.setResultShardingsAttr(replaced(
          *saved->maker.getResultShardings(), saved->result, reshard.getTo()));
      function.setArgShardingsAttr(replaced(*function.getArgShardings(),
                                            argument.getArgNumber(),
                                            reshard.getTo()));
    }
    reshard.getOutput().replaceAllUsesWith(argument);
    reshard.erase();
    return true;
  }

  static ArrayAttr replaced(ArrayAttr list, size_t number, Attribute value) {
    SmallVector<Attribute> values(list.getValue());
    values.resize(std::max(values.size(), number + 1));
    values[number] = value;
    return ArrayAttr::get(list.getContext(), values);
  }

  /// Lets the function that computes the activation return `value`, too.
  /// `value` becomes the last result of the function and of all its calls.
  void addResult(const Saved &saved, Value value, TensorShardingAttr sharding) {
    nn::FuncOp maker = saved.maker;
    size_t number = maker.getResultTypes().size();
    maker.getBody().front().getTerminator()->insertOperands(number, value);
    updateFunctionType(maker);
    maker.setResultShardingsAttr(
        replaced(*maker.getResultShardings(), number, sharding));
    for (nn::CallOp &call : calls[maker]) {
      OpBuilder builder(call);
      auto longer = builder.create<nn::CallOp>(
          call.getLoc(), maker, call.getOperands(), call.getPathAttr(),
          call.getRecomputeAttr());
      if (call.getWhen()) {
        longer.setWhenAttr(call.getWhenAttr());
        SmallVector<int64_t> passes(*call.getPasses());
        passes.push_back(nn::CallOp::passesNothing);
        longer.setPasses(passes);
      }
      call->replaceAllUsesWith(longer.getResults().drop_back());
      call.erase();
      call = longer;
    }
  }

  /// Adds an argument to `function`. Each call of `function` passes, for the
  /// argument `like`, a result of a call of a forward function. For the new
  /// argument, each call passes the last result of that forward call.
  BlockArgument addArgument(nn::FuncOp function, BlockArgument like,
                            TensorShardingAttr sharding) {
    BlockArgument argument =
        function.getBody().front().addArgument(like.getType(), like.getLoc());
    function.setFunctionType(FunctionType::get(
        function.getContext(), function.getBody().front().getArgumentTypes(),
        function.getResultTypes()));
    function.setArgShardingsAttr(replaced(*function.getArgShardings(),
                                          argument.getArgNumber(), sharding));
    for (nn::CallOp call : calls[function]) {
      Operation *maker = call.getOperand(like.getArgNumber()).getDefiningOp();
      call.getOperandsMutable().append(maker->getResults().back());
    }
    return argument;
  }

  nn::ModelOp model;
  SymbolTable symbols;
  shard::Reasons *reasons;
  /// The calls of each function.
  DenseMap<Operation *, SmallVector<nn::CallOp>> calls;
};

struct SaveResharded : heddle::impl::ShardSaveReshardedBase<SaveResharded> {
  using Base::Base;

  void runOnOperation() override {
    shard::Reasons reasons;
    ModelRewriter rewriter(getOperation(), printReasons ? &reasons : nullptr);
    numSaved += rewriter.run();
    reasons.print(llvm::errs());
  }
};

} // namespace
