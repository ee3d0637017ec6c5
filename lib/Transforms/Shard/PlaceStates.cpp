//===- PlaceStates.cpp - Offloads states to host memory or files ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sets the memory kind of states for offloading (`--place`). The passes
// spmd-fetch-parameters and spmd-stream-states insert the transfers.
//
//===----------------------------------------------------------------------===//

#include "ZeroStorage.h"
#include "dialects/NN/NNDialect.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Shard/Passes.h"
#include "heddle/Transforms/Shard/Shardings.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;
using dist::TensorShardingAttr;
using nn::StateRole;

namespace heddle {
#define GEN_PASS_DEF_SHARDPLACESTATES
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

struct PlaceStates : heddle::impl::ShardPlaceStatesBase<PlaceStates> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    const dist::Strategy &strategy = model.getStrategy().getValue();
    auto kind = *nn::symbolizeMemoryKind(wordOf(strategy.placeOptimizer));
    if (kind != nn::MemoryKind::Device)
      placeOptimizer(model, kind);
    kind = *nn::symbolizeMemoryKind(wordOf(strategy.placeGradients));
    if (kind != nn::MemoryKind::Device)
      placeGradients(model, kind);
    kind = *nn::symbolizeMemoryKind(wordOf(strategy.placeParameters));
    if (kind != nn::MemoryKind::Device && failed(placeParameters(model, kind)))
      signalPassFailure();
  }

private:
  /// The states that cannot be transferred in tiles, because an operation that
  /// is not element-wise reads the state, or reads another state of the same
  /// bucket.
  static llvm::StringSet<> readWhole(nn::ModelOp model) {
    SymbolTable symbols(model);
    llvm::StringSet<> names;
    model.walk([&](nn::GetOp get) {
      SmallVector<Operation *> users(get->getUsers());
      for (size_t i = 0; i < users.size(); ++i)
        if (isa<dist::ReshardOp>(users[i]))
          llvm::append_range(users, users[i]->getUsers());
        else if (!users[i]->hasTrait<nn::Elementwise>())
          for (StringRef state : statesOf(symbols, get.getState()))
            names.insert(state);
    });
    for (auto bucket : model.getOps<nn::BucketOp>()) {
      SmallVector<StringRef> members = statesOf(symbols, bucket.getSymName());
      if (llvm::any_of(members,
                       [&](StringRef name) { return names.contains(name); }))
        for (StringRef member : members)
          names.insert(member);
    }
    return names;
  }

  void placeOptimizer(nn::ModelOp model, nn::MemoryKind kind) {
    llvm::StringSet<> kept = readWhole(model);
    llvm::DenseSet<StringAttr> copied = copiedIn(model);
    for (auto state : model.getOps<nn::StateOp>()) {
      // A number, and a state that every replica holds whole, stays in the
      // device's memory.
      bool isMoment = state.getRole() == StateRole::Optimizer &&
                      state.getHolding() == nn::Holding::Parameter;
      bool isMaster = state.getRole() == StateRole::Parameter &&
                      state.getTrainable() &&
                      copied.contains(state.getSymNameAttr()) &&
                      !kept.contains(state.getSymName());
      if (!isMoment && !isMaster)
        continue;
      state.setMemory(kind);
      ++numPlaced;
    }
  }

  void placeGradients(nn::ModelOp model, nn::MemoryKind kind) {
    for (auto state : model.getOps<nn::StateOp>())
      if (state.getRole() == StateRole::Gradient) {
        state.setMemory(kind);
        ++numPlaced;
      }
  }

  /// Offloads parameters, as whole buckets. A parameter that is in no bucket is
  /// frozen. It stays in the device's memory.
  LogicalResult placeParameters(nn::ModelOp model, nn::MemoryKind kind) {
    FailureOr<dist::MeshOp> mesh = shard::meshOf(model);
    if (failed(mesh))
      return failure();
    bool isSplit =
        shard::ZeroStorage(model, *mesh).splits(StateRole::Parameter);
    llvm::DenseSet<StringAttr> copied = copiedIn(model);
    SymbolTable symbols(model);
    for (auto bucket : model.getOps<nn::BucketOp>()) {
      SmallVector<nn::StateOp> members;
      for (StringRef name : statesOf(symbols, bucket.getSymName()))
        members.push_back(symbols.lookup<nn::StateOp>(name));
      StateRole role = members.front().getRole();
      bool isRead = role == StateRole::Derived ||
                    (role == StateRole::Parameter &&
                     !copied.contains(members.front().getSymNameAttr()));
      TensorShardingAttr storage = bucket.getStorageAttr();
      bool isKept = isSplit && !(storage && shard::splitsReplicas(storage));
      if (!isRead || isKept)
        continue;
      for (nn::StateOp state : members)
        state.setMemory(kind);
      numPlaced += members.size();
    }
    return success();
  }
};

} // namespace
