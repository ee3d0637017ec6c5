//===- PlaceStates.cpp - In which memory states live ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"
#include "heddle/Transforms/Shard/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_SHARDPLACESTATES
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

struct PlaceStates : heddle::impl::ShardPlaceStatesBase<PlaceStates> {
  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      const dist::Strategy &strategy = model.getStrategy().getValue();
      auto kind = *nn::symbolizeMemoryKind(wordOf(strategy.placeOptimizer));
      if (kind != nn::MemoryKind::Device)
        place(model, kind);
    }
  }

private:
  void place(nn::ModelOp model, nn::MemoryKind kind) {
    llvm::DenseSet<StringAttr> copied;
    for (auto state : model.getOps<nn::StateOp>())
      if (state.getRole() == nn::StateRole::ComputeCopy)
        copied.insert(state.getParameterAttr());
    for (auto state : model.getOps<nn::StateOp>()) {
      bool isMoment =
          state.getRole() == nn::StateRole::Optimizer && state.getParameter();
      bool isMaster = state.getRole() == nn::StateRole::Parameter &&
                      state.getTrainable() &&
                      copied.contains(state.getSymNameAttr());
      if (!isMoment && !isMaster)
        continue;
      state.setMemory(kind);
      ++numPlaced;
    }
  }
};

} // namespace
