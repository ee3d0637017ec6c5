//===- ConditionTransfers.cpp - Skips the transfers of dropped layers
//------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `spmd-condition-transfers`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "LayerConditions.h"
#include "dialects/NN/Conditions.h"
#include "heddle/Transforms/Spmd/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_SPMDCONDITIONTRANSFERS
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

struct ConditionTransfers
    : heddle::impl::SpmdConditionTransfersBase<ConditionTransfers> {
  void runOnOperation() override {
    if (getOperation().getOps<nn::ConditionOp>().empty())
      return;
    for (auto step : getOperation().getOps<nn::StepOp>()) {
      FailureOr<spmd::LayerConditions> found = spmd::layerConditionsOf(step);
      if (failed(found))
        return signalPassFailure();
      for (auto [op, condition] : *found)
        nn::setCondition(op, condition);
      numConditions += found->size();
    }
  }
};

} // namespace
