//===- HostValues.cpp - Values in the host's memory -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Common/HostValues.h"
#include "dialects/Plan/PlanDialect.h"
#include "heddle/Transforms/Common/States.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;

bool heddle::isOnHost(Value value, const SymbolTable &symbols) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](nn::GetOp get) {
        return isHostMemory(memoryOf(symbols, get.getState()));
      })
      .Case([](dist::MoveOp move) { return move.getToHost(); })
      .Case<dist::WaitOp, nn::UnpackOp, nn::PackOp>(
          [&](auto same) { return isOnHost(same->getOperand(0), symbols); })
      .Case([&](nn::UpdateOp update) { return runsOnHost(update, symbols); })
      .Case([&](planir::LaunchOp launch) {
        auto kernel = symbols.lookup<planir::KernelOp>(launch.getKernel());
        return kernel && kernel.getOnHost();
      })
      .Default([](Operation *) { return false; });
}

bool heddle::runsOnHost(nn::UpdateOp update, const SymbolTable &symbols) {
  return llvm::all_of(update->getOperands(), [&](Value operand) {
    return isOnHost(operand, symbols);
  });
}
