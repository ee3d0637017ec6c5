//===- Optimizers.cpp - The optimizers that there are ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Optimizers.h"

using namespace heddle;

train::Optimizer train::optimizerOf(const dist::Strategy &strategy) {
  switch (strategy.optimizer) {
  case config::Optimizer::AdamW:
  case config::Optimizer::Adam:
    return adamW(strategy);
  case config::Optimizer::Lion:
    return lion(strategy);
  case config::Optimizer::Lamb:
    return lamb(strategy);
  case config::Optimizer::OneBitAdam:
    return oneBitAdam(strategy);
  case config::Optimizer::OneBitLamb:
    return oneBitLamb(strategy);
  case config::Optimizer::ZeroOneAdam:
    return zeroOneAdam(strategy);
  }
  llvm_unreachable("all optimizers handled");
}
