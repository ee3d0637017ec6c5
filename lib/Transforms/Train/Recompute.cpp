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
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      const dist::Strategy &strategy = model.getStrategy().getValue();
      nn::Recompute chosen =
          *nn::symbolizeRecompute(wordOf(strategy.recompute));
      model.walk([&](nn::CallOp call) {
        auto step = call->getParentOfType<nn::StepOp>();
        if (step && step.getKind() == nn::ProgramKind::Train &&
            !call.getRecompute())
          call.setRecompute(chosen);
      });
    }
  }
};

} // namespace
