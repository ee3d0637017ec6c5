//===- PartitionStates.cpp - Which rank holds which part of the states ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// ZeRO (Rajbhandari et al., arXiv 1910.02054) as storage: what a state's
// storage splits more than its uses do, reshards gather and scatter.
//
//===----------------------------------------------------------------------===//

#include "Units.h"
#include "heddle/Transforms/Shard/Passes.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::shard;

namespace heddle {
#define GEN_PASS_DEF_SHARDPARTITIONSTATES
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

struct PartitionStates
    : heddle::impl::ShardPartitionStatesBase<PartitionStates> {
  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      auto strategy =
          dist::Strategy::fromDictionary(model.getStrategy().getValues());
      ReplicaAxes replicas(&getContext(), strategy);
      if (replicas.ranks == 1 && strategy.tensor == 1)
        continue;
      // Without replicas there is nothing that several ranks hold.
      if (replicas.ranks == 1)
        strategy.zero = 0;
      for (auto state : model.getOps<nn::StateOp>())
        if (state.getRole() == "accumulator")
          state.setStorageAttr(replicas.partialSum(state.getTensorType()));
      for (auto step : llvm::make_early_inc_range(model.getOps<nn::StepOp>()))
        if (step.getKind() == "train")
          partition(model, step, strategy, replicas);
    }
  }

private:
  void partition(nn::ModelOp model, nn::StepOp step,
                 const dist::Strategy &strategy, const ReplicaAxes &replicas) {
    Units units(model, step, strategy, replicas);
    units.replaceUpdates();
    if (strategy.zero < 2)
      units.keepGradientsApart();
    else
      units.scatterGradients();
    if (strategy.zero == 3)
      for (auto reader : model.getOps<nn::StepOp>())
        units.gatherParameters(reader);
    numUnits += units.all().size();
  }
};

} // namespace
