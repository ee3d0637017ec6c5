//===- PartitionStates.cpp - Which rank holds which part of the states ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// ZeRO (Rajbhandari et al., arXiv 1910.02054): this pass chooses how ranks
// split the storage of every bucket of states. If storage is split and an
// operation needs the whole value, a reshard is inserted. These reshards are
// ZeRO's all-gathers and reduce-scatters.

#include "ParameterBuckets.h"
#include "Reasons.h"
#include "heddle/Transforms/Shard/Passes.h"
#include "heddle/Transforms/Shard/Shardings.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::shard;
using dist::TensorShardingAttr;

namespace heddle {
#define GEN_PASS_DEF_SHARDPARTITIONSTATES
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

struct PartitionStates
    : heddle::impl::ShardPartitionStatesBase<PartitionStates> {
  using Base::Base;

  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    FailureOr<dist::MeshOp> mesh = meshOf(model);
    if (failed(mesh))
      return signalPassFailure();
    FailureOr<TiledWeights> tiled = TiledWeights::of(model);
    if (failed(tiled))
      return signalPassFailure();
    ZeroStorage zero(model, *mesh);
    if (zero.ranks > 1 || !zero.tensorAxes.empty())
      partition(model, *mesh, zero, *tiled);
    if (printReasons) {
      noteStates(model, zero.stage);
      reasons.print(llvm::errs());
    }
  }

private:
  /// Gives each rank the maxima of its part, if ranks split the states of which
  /// they are. Tensor ranks split quantized weights, whose maxima are those of
  /// whole weights.
  static void splitMaxima(nn::ModelOp model, dist::MeshOp mesh,
                          const ZeroStorage &zero) {
    int64_t replicas = zero.splits(nn::StateRole::Optimizer) ? zero.ranks : 1;
    auto setRows = [](Value output, int64_t rows) {
      auto type = cast<RankedTensorType>(output.getType());
      output.setType(type.clone({rows, type.getDimSize(1)}));
    };
    model.walk([&](nn::SegmentMaximaOp maxima) {
      setRows(maxima.getOutput(), replicas);
    });
    model.walk([&](nn::GroupMaximaOp maxima) {
      auto copies = model.lookupSymbol<nn::BucketOp>(*maxima.getBucket());
      TensorShardingAttr storage = copies.getStorageAttr();
      int64_t parts = 1;
      for (Attribute axis : cast<ArrayAttr>(storage.getDims()[0]))
        if (!dist::holdsReplicas(axis))
          parts *= mesh.getAxisSize(cast<StringAttr>(axis));
      setRows(maxima.getOutput(), replicas * parts);
    });
  }

  void partition(nn::ModelOp model, dist::MeshOp mesh, const ZeroStorage &zero,
                 const TiledWeights &tiled) {
    for (auto state : model.getOps<nn::StateOp>())
      if (state.getRole() == nn::StateRole::Accumulator)
        state.setStorageAttr(zero.partialSum(state.getTensorType()));
    ParameterBuckets::Made made;
    std::deque<ParameterBuckets> programs; // One for each train program.
    for (auto step : model.getOps<nn::StepOp>())
      if (step.getKind() == nn::ProgramKind::Train)
        programs.emplace_back(model, step, zero, tiled, made);
    if (programs.empty())
      return;
    SmallVector<nn::BucketOp> old(model.getOps<nn::BucketOp>());
    for (ParameterBuckets &buckets : programs)
      buckets.replaceUpdates(old);
    for (nn::BucketOp bucket : old)
      bucket.erase();
    splitMaxima(model, mesh, zero);
    llvm::StringSet<> names;
    for (ParameterBuckets &buckets : programs) {
      partition(model, buckets, zero, names);
      for (ParameterBucket &bucket : buckets.all())
        names.insert(bucket.name);
    }
    numBuckets += names.size();
  }

  /// Inserts the communication of a train program's buckets. Those with the
  /// names `gathered` have been gathered for an earlier one.
  void partition(nn::ModelOp model, ParameterBuckets &buckets,
                 const ZeroStorage &zero, const llvm::StringSet<> &gathered) {
    if (zero.splits(nn::StateRole::Gradient))
      buckets.scatterGradients();
    else
      buckets.keepGradientsApart();
    if (zero.splits(nn::StateRole::Parameter))
      for (auto reader : model.getOps<nn::StepOp>())
        buckets.gatherParameters(reader, gathered);
  }

  /// Reports how each bucket is split and why. Then reports the same for each
  /// state that is not in a bucket and is not a parameter.
  void noteStates(nn::ModelOp model, int64_t stage) {
    auto note = [&](Operation *op, StringRef whole) {
      TensorShardingAttr storage = storageOf(op);
      StringRef why = !storage.getUnreduced().empty()
                          ? "each replica has a part of the sum"
                      : splitsReplicas(storage) ? "each replica keeps a part"
                                                : whole;
      reasons.add(SymbolTable::getSymbolName(op).getValue(), storage,
                  why + ", zero " + Twine(stage) + " (shard-partition-states)");
    };
    llvm::DenseSet<Attribute> members;
    for (auto bucket : model.getOps<nn::BucketOp>())
      for (auto member : bucket.getMembers().getAsRange<FlatSymbolRefAttr>())
        members.insert(member.getAttr());
    for (Operation &op : *model.getBodyBlock()) {
      auto state = dyn_cast<nn::StateOp>(op);
      if (state && state.getRole() != nn::StateRole::Parameter &&
          !members.contains(state.getSymNameAttr()))
        note(state,
             state.getParameter() ? "as its parameter" : "every rank has it");
      if (auto bucket = dyn_cast<nn::BucketOp>(op))
        note(bucket, "as its members");
    }
  }

  shard::Reasons reasons;
};

} // namespace
