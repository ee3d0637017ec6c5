//===- Recompute.cpp - Writes the recomputation policy at calls -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Train/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_TRAINRECOMPUTE
#include "include/heddle/Transforms/Train/Passes.h.inc"
} // namespace heddle

namespace {

struct Recompute : heddle::impl::TrainRecomputeBase<Recompute> {
  void runOnOperation() override {
    const dist::Strategy &strategy = getOperation().getStrategy().getValue();
    nn::Recompute chosen = *nn::symbolizeRecompute(wordOf(strategy.recompute));
    for (auto step : getOperation().getOps<nn::StepOp>())
      if (step.getKind() == nn::ProgramKind::Train)
        step.walk([&](nn::CallOp call) {
          if (!call.getRecompute())
            call.setRecompute(chosen);
        });
  }
};

} // namespace
