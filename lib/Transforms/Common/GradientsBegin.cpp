//===- GradientsBegin.cpp - Checks that gradients begin with 0 ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Plan/PlanDialect.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Common/VerifyPass.h"

using namespace mlir;
using namespace heddle;

/// The operation that computes a value. If a kernel computes the value, this is
/// the operation in the kernel's body.
static Operation *computationOf(Value value, const SymbolTable &symbols) {
  auto launch = value.getDefiningOp<planir::LaunchOp>();
  auto kernel = launch ? symbols.lookup<planir::KernelOp>(launch.getKernel())
                       : planir::KernelOp();
  if (!kernel)
    return value.getDefiningOp();
  unsigned number = cast<OpResult>(value).getResultNumber();
  Operation *end = kernel.getBody().front().getTerminator();
  return end->getOperand(number).getDefiningOp();
}

LogicalResult heddle::verifyGradientsBegin(nn::ModelOp model, StringRef code) {
  SymbolTable symbols(model);
  auto verifyOne = [&](nn::SetOp set) -> LogicalResult {
    auto fill =
        dyn_cast_or_null<nn::FillOp>(computationOf(set.getValue(), symbols));
    StringRef first = statesOf(symbols, set.getState()).front();
    if (!fill || fill.getValue().isZero() ||
        symbols.lookup<nn::StateOp>(first).getRole() != nn::StateRole::Gradient)
      return success();
    return fill.emitError(code + ": begins the gradient ")
           << set.getStateAttr() << " with " << fill.getValueAttr()
           << "; gradients begin with 0";
  };
  return verifyEach<nn::SetOp>(model, verifyOne);
}
