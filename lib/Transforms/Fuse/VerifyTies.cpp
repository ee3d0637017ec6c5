//===- VerifyTies.cpp - Checks which values launches overwrite ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Groups.h"

using namespace mlir;
using namespace heddle;

namespace {

/// Pairs of an argument whose memory a function overwrites, and the result that
/// is in this memory afterwards. Both are given by index.
using Ties = SmallVector<std::pair<unsigned, unsigned>>;

class TiesVerifier {
public:
  explicit TiesVerifier(nn::ModelOp model) : model(model), symbols(model) {}

  LogicalResult run() {
    for (auto function : model.getOps<nn::FuncOp>())
      if (failed(visit(function, function.getBody())))
        return failure();
    for (auto step : model.getOps<nn::StepOp>())
      if (failed(visit(step, step.getBody())))
        return failure();
    return success();
  }

private:
  /// Verifies a function once, although it may have several callers. Functions
  /// are not recursive.
  LogicalResult visit(Operation *function, Region &body) {
    if (!tiesOfFunction.try_emplace(function).second)
      return success();
    Ties own;
    WalkResult walk = body.walk([&](Operation *op) {
      FailureOr<Ties> ties = tiesOf(op);
      if (failed(ties))
        return WalkResult::interrupt();
      for (auto [operand, result] : *ties)
        if (failed(verify(op, operand, op->getResult(result), function, own)))
          return WalkResult::interrupt();
      return WalkResult::advance();
    });
    tiesOfFunction[function] = std::move(own);
    return failure(walk.wasInterrupted());
  }

  FailureOr<Ties> tiesOf(Operation *op) {
    Ties ties;
    if (auto launch = dyn_cast<planir::LaunchOp>(op)) {
      auto kernel = symbols.lookup<planir::KernelOp>(launch.getKernel());
      for (auto [result, tie] : llvm::enumerate(kernel.getTies()))
        if (tie >= 0)
          ties.push_back({static_cast<unsigned>(tie), result});
    }
    auto call = dyn_cast<nn::CallOp>(op);
    auto callee =
        call ? symbols.lookup<nn::FuncOp>(call.getCallee()) : nn::FuncOp();
    if (!callee)
      return ties;
    if (failed(visit(callee, callee.getBody())))
      return failure();
    return tiesOfFunction[callee];
  }

  InFlightDiagnostic refuse(Operation *op, unsigned operand) {
    return op->emitError("H0907: overwrites its operand ") << operand << ", ";
  }

  /// Checks a result that is computed in the memory of an operand: nothing may
  /// read the operand afterwards.
  LogicalResult verify(Operation *op, unsigned number, Value result,
                       Operation *function, Ties &own) {
    Value operand = op->getOperand(number);
    Block *block = op->getBlock();
    for (OpOperand &use : operand.getUses()) {
      if (use.getOwner() == op && use.getOperandNumber() == number)
        continue;
      Operation *here = block->findAncestorOpInBlock(*use.getOwner());
      bool isBefore = here && here != op && here->isBeforeInBlock(op);
      if (auto set = dyn_cast<nn::SetOp>(use.getOwner()); set && isBefore) {
        auto error = refuse(op, number)
                     << "which " << set.getStateAttr() << " holds";
        error.attachNote(set.getLoc()) << "it is written there here";
        return error;
      }
      if (isBefore)
        continue;
      auto error = refuse(op, number) << "which is read afterwards";
      error.attachNote(use.getOwner()->getLoc()) << "it is read here";
      return error;
    }
    if (operand.getParentBlock() != block)
      return refuse(op, number) << "which is made outside of this loop";
    if (auto unpack = operand.getDefiningOp<nn::UnpackOp>()) {
      if (!unpack.getFlat().hasOneUse())
        return refuse(op, number) << "a part of what something else reads";
      operand = unpack.getFlat();
    }
    if (auto get = operand.getDefiningOp<nn::GetOp>())
      return verifyState(op, number, get);
    auto argument = dyn_cast<BlockArgument>(operand);
    if (!argument || !isa<nn::FuncOp>(function))
      return success();
    auto end = cast<nn::ReturnOp>(block->getTerminator());
    for (auto [index, value] : llvm::enumerate(end.getOperands()))
      if (leads(result, value)) {
        own.push_back({argument.getArgNumber(), index});
        return success();
      }
    return refuse(op, number) << "the function's, and returns no result for it";
  }

  /// Whether `last` is in the same memory as `first`, because each value on the
  /// way from `first` to `last` was computed in the memory of the value before.
  bool leads(Value first, Value last) {
    while (last != first) {
      Operation *made = last.getDefiningOp();
      FailureOr<Ties> ties = made ? tiesOf(made) : Ties();
      if (failed(ties))
        return false;
      auto tie = llvm::find_if(*ties, [&](auto pair) {
        return made->getResult(pair.second) == last;
      });
      if (tie == ties->end())
        return false;
      last = made->getOperand(tie->first);
    }
    return true;
  }

  /// Checks that a state whose old value a launch overwrote is written again
  /// before anything reads the state. The new value may differ from the
  /// launch's result, for example if it is a sum over pipeline stages that
  /// share a parameter.
  LogicalResult verifyState(Operation *op, unsigned number, nn::GetOp get) {
    for (Operation *next = op->getNextNode(); next;
         next = next->getNextNode()) {
      auto set = dyn_cast<nn::SetOp>(next);
      if (set && set.getState() == get.getState() &&
          set.getSlot() == get.getSlot())
        return success();
      bool reads = next->walk([&](nn::GetOp other) {
                         return other.getState() == get.getState()
                                    ? WalkResult::interrupt()
                                    : WalkResult::advance();
                       })
                       .wasInterrupted();
      if (reads)
        break;
    }
    return refuse(op, number)
           << "of " << get.getStateAttr() << ", which gets no other value";
  }

  nn::ModelOp model;
  SymbolTable symbols;
  DenseMap<Operation *, Ties> tiesOfFunction;
};

} // namespace

LogicalResult fuse::verifyTies(nn::ModelOp model) {
  return TiesVerifier(model).run();
}
