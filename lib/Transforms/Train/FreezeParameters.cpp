//===- FreezeParameters.cpp - Parameters that are not trained -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ParameterGroups.h"
#include "heddle/Transforms/Train/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_TRAINFREEZEPARAMETERS
#include "include/heddle/Transforms/Train/Passes.h.inc"
} // namespace heddle

namespace {

struct FreezeParameters
    : heddle::impl::TrainFreezeParametersBase<FreezeParameters> {
  void runOnOperation() override {
    train::ParameterGroups groups(getOperation());
    if (failed(groups.verify()))
      return signalPassFailure();
    for (auto state : getOperation().getOps<nn::StateOp>()) {
      if (state.getRole() != nn::StateRole::Parameter)
        continue;
      std::optional<size_t> group = groups.of(state);
      if (group && groups[*group].frozen)
        state.setTrainable(false);
    }
  }
};

} // namespace
