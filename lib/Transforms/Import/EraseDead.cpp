//===- EraseDead.cpp - Leaves out what nothing uses -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Common/Programs.h"
#include "heddle/Transforms/Import/Passes.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_IMPORTERASEDEAD
#include "include/heddle/Transforms/Import/Passes.h.inc"
} // namespace heddle

namespace {

struct EraseDead : heddle::impl::ImportEraseDeadBase<EraseDead> {
  void runOnOperation() override {
    // The operations in reverse order, so that an operation is erased after its
    // users.
    SmallVector<Operation *> order;
    getOperation().walk<WalkOrder::PreOrder>(
        [&](Operation *op) { order.push_back(op); });
    for (Operation *op : llvm::reverse(order))
      if (isDead(op)) {
        op->erase();
        ++numErased;
      }
    for (auto model : getOperation().getOps<nn::ModelOp>())
      if (!model.getOps<nn::StepOp>().empty())
        eraseUncalled(model);
  }

private:
  bool isDead(Operation *op) {
    auto call = dyn_cast<nn::CallOp>(op);
    return call ? call.use_empty() && computesOnly(call)
                : isOpTriviallyDead(op);
  }

  /// Whether the called function has no side effects, and neither do the
  /// functions that it calls.
  bool computesOnly(nn::CallOp call) {
    auto function =
        call->getParentOfType<nn::ModelOp>().lookupSymbol<nn::FuncOp>(
            call.getCalleeAttr());
    auto [known, isNew] = computing.try_emplace(function, true);
    if (!isNew)
      return known->second;
    WalkResult walk = function.getBody().walk([&](Operation *op) {
      auto inner = dyn_cast<nn::CallOp>(op);
      bool computes = inner ? computesOnly(inner)
                            : isMemoryEffectFree(op) || isa<nn::GetOp>(op);
      return computes ? WalkResult::advance() : WalkResult::interrupt();
    });
    return computing[function] = !walk.wasInterrupted();
  }

  DenseMap<Operation *, bool> computing;
};

} // namespace
