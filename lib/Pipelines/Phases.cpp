//===- Phases.cpp - The passes of each phase, and their order -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/Passes.h"
#include "heddle/Pipelines/Compile.h"
#include "heddle/Transforms/Fuse/Passes.h"
#include "heddle/Transforms/Import/Passes.h"
#include "heddle/Transforms/Memory/Passes.h"
#include "heddle/Transforms/Model/Passes.h"
#include "heddle/Transforms/Pipe/Passes.h"
#include "heddle/Transforms/Prove/Passes.h"
#include "heddle/Transforms/Shard/Passes.h"
#include "heddle/Transforms/Spmd/Passes.h"
#include "heddle/Transforms/Train/Passes.h"

using namespace mlir;
using namespace heddle;

static void buildImport(OpPassManager &pm, const CompileOptions &options) {
  // Needs the forward function, which the importer or the user wrote.
  ImportDeriveProgramsOptions programs;
  programs.guesses = options.guesses;
  pm.addNestedPass<nn::ModelOp>(createImportDerivePrograms(programs));
  // Needs the programs: the size of the cache follows from their rows and
  // tokens.
  ImportAddCacheOptions cache;
  cache.pages = options.cachePages;
  pm.addNestedPass<nn::ModelOp>(createImportAddCache(cache));
}

static void buildModel(OpPassManager &pm, const CompileOptions &) {
  // Before differentiation: it gives gradients the types of the forward pass,
  // whose precision this pass sets.
  pm.addNestedPass<nn::ModelOp>(createModelApplyPrecision());
}

static void buildTrain(OpPassManager &pm, const CompileOptions &options) {
  // Must not see steps: it builds the programs of single layers from `eval`,
  // which has to be a function.
  if (options.splitLayers != LayerPrograms::None) {
    TrainSplitLayersOptions split;
    split.sequential = options.splitLayers == LayerPrograms::Sequential;
    pm.addNestedPass<nn::ModelOp>(createTrainSplitLayers(split));
  }
  // Before `train-differentiate`, which makes no gradients for parameters that
  // are not trainable.
  pm.addNestedPass<nn::ModelOp>(createTrainFreezeParameters());
  // Before `train-differentiate`, which works on the body of the loop over
  // micro-batches.
  pm.addNestedPass<nn::ModelOp>(createTrainBuildSteps());
  // Needs the calls in the steps. Before `train-differentiate`, which reads at
  // each call which activations are saved.
  pm.addNestedPass<nn::ModelOp>(createTrainRecompute());
  // Needs the loop of `train-build-steps` and the policies of
  // `train-recompute`.
  pm.addNestedPass<nn::ModelOp>(createTrainDifferentiate());
  // Needs the states with gradients that `train-differentiate` makes.
  pm.addNestedPass<nn::ModelOp>(createTrainOptimizer());
}

static void buildFuse(OpPassManager &pm, const CompileOptions &options) {
  // Needs the local shapes of spmd: each rank packs its own shard. Before
  // kernels are formed, because a product with a packed weight is another
  // operation, with another generator.
  pm.addPass(createFusePackWeights());
  OpPassManager &models = pm.nest<nn::ModelOp>();
  // The next three passes split one operation into two that need a launch
  // each, so they must not see kernels.
  models.addPass(createFuseSplitAttention());
  models.addPass(createFuseSplitNorms());
  models.addPass(createFuseSplitSums());
  // Needs the products of `fuse-pack-weights`. Before `fuse-form-kernels`,
  // which joins only adjacent products.
  models.addPass(createFuseGatherProducts());
  // Needs the final list of operations: it puts all of them into kernels.
  FuseFormKernelsOptions fuse;
  fuse.remarks = options.verbose;
  models.addPass(createFuseFormKernels(fuse));
  // Needs the kernels: a value may have padding only if kernels alone read and
  // write it.
  models.addPass(createFusePadRows());
}

static void buildShard(OpPassManager &pm, const CompileOptions &options) {
  OpPassManager &models = pm.nest<nn::ModelOp>();
  // First: all following passes read the axes from the mesh.
  models.addPass(createShardMakeMesh());
  // Before reductions are placed: they transfer gradients in the type that this
  // pass gives them.
  models.addPass(createShardNarrowGradients());
  // Before `shard-partition-states`, which reduces a micro-batch's gradients at
  // the additions that this pass separates from the products.
  models.addPass(createShardSeparateSums());
  // Before `shard-partition-states`: ZeRO splits over replicas what tensor
  // parallelism has left whole.
  models.addPass(createShardSplitParameters({options.shardingReasons}));
  // Before the sharding plan is made, which derives the shardings of values
  // from the storage of states.
  models.addPass(createShardPartitionStates({options.shardingReasons}));
  // Needs the buckets of `shard-partition-states`: whole buckets are offloaded.
  models.addPass(createShardPlaceStates());
  // Needs the buckets: a bucket is reduced later if all of its members are. The
  // last change of storage.
  models.addPass(createShardDeferGradientReduction({options.shardingReasons}));
  // Needs the final storage of all states. Makes the sharding plan.
  models.addPass(createShardPropagate({options.shardingReasons}));
  // Needs the sharding plan, and writes it into the module.
  models.addPass(createShardInsertReshards());
  // Needs the reshards: a value that the backward pass would reshard again is
  // saved after its reshard in the forward pass.
  models.addPass(createShardSaveResharded({options.shardingReasons}));
}

static void buildPipe(OpPassManager &pm, const CompileOptions &) {
  // Needs the whole model: it balances the arithmetic of the layers' calls
  // between stages.
  pm.addNestedPass<nn::ModelOp>(createPipeSchedule());
  // Needs the stages and their schedule. All later passes see one model for
  // each stage.
  pm.addPass(createPipeSplit());
}

static void buildSpmd(OpPassManager &pm, const CompileOptions &) {
  // Needs shardings, which say that all tensor ranks hold a value. Must not see
  // local shapes.
  pm.addPass(createSpmdPartitionActivations());
  // Needs the reshards of `spmd-partition-activations`: it turns all reshards
  // into collectives, and removes the shardings.
  pm.addNestedPass<nn::ModelOp>(createSpmdLocalize());
  // Needs local shapes: a chunk is a number of a rank's own tokens. Must not
  // see pending collectives: it moves the collectives of a chunk into it.
  pm.addNestedPass<nn::ModelOp>(createSpmdChunkTokens());
  // Needs chunks, whose products it tiles. Must not see pending all-gathers or
  // fetches of whole parameters: it replaces them by those of row tiles.
  pm.addPass(createSpmdTileProducts());
  // Needs all collectives, those of row tiles too. Moves their starts and waits
  // apart.
  pm.addNestedPass<nn::ModelOp>(createSpmdOverlap());
  // Needs the waits of `spmd-overlap`: an update follows the reduction of its
  // gradients. Before `spmd-stream-states`, whose tiles are transferred in the
  // order of the updates.
  pm.addNestedPass<nn::ModelOp>(createSpmdAdvanceUpdates());
  // Must not see fetches of gradients: it removes the zeros that the first
  // micro-batch would fetch.
  pm.addNestedPass<nn::ModelOp>(createSpmdStartGradients());
  // Needs the final places of all-gathers and updates: a fetch starts one layer
  // before the first of them that reads the parameter.
  pm.addNestedPass<nn::ModelOp>(createSpmdFetchParameters());
  // Needs the waits of `spmd-overlap`, after which reduced gradients are
  // stored. Before `spmd-stream-states`, which tiles the sums of squares that
  // this pass makes of the gradient norm.
  pm.addNestedPass<nn::ModelOp>(createSpmdStreamGradients());
  // Needs the final order of updates: the host computes the first ones. Before
  // `spmd-stream-states`, which moves all others through the device's memory.
  pm.addPass(createSpmdHostUpdates());
  // Needs the updates that the device computes, in their final order.
  pm.addNestedPass<nn::ModelOp>(createSpmdStreamStates());
  // Needs the all-gathers and fetches of weights, to know that these values are
  // no activations.
  pm.addPass(createSpmdStreamActivations());
}

static void buildKernels(OpPassManager &pm, const CompileOptions &options) {
  // Needs the bodies of `plan.kernel`, with the final leading dimensions.
  KernelsCompileOptions kernels;
  kernels.cache = options.cache;
  kernels.sizesOnly = !options.makesCode();
  pm.addPass(createKernelsCompile(kernels));
}

static void buildMemory(OpPassManager &pm, const CompileOptions &) {
  // Needs compiled kernels: their scratch memory is part of the arena.
  pm.addPass(createMemoryPlan());
}

namespace {

/// A phase: its passes, and the verifier of its result.
struct PhaseRow {
  llvm::StringLiteral name;
  void (*build)(OpPassManager &pm, const CompileOptions &options);
  void (*verify)(OpPassManager &pm);
};

} // namespace

static void buildNothing(OpPassManager &, const CompileOptions &) {}

/// Adds a verifier that checks each operation of type OpT.
template <typename OpT, auto create>
static void addVerifier(OpPassManager &pm) {
  pm.nest<OpT>().addPass(create());
}

static void verifyPipe(OpPassManager &pm) { pm.addPass(createPipeVerify()); }

static void verifyKernels(OpPassManager &pm) {
  pm.addPass(createKernelsVerify());
}

static void prove(OpPassManager &pm) {
  pm.addPass(createProveDataflow());
  pm.addPass(createProveCommunication());
}

/// By phase. The verifier of the memory phase reads only the plan, not the data
/// of the planner, so it finds errors of `memory-plan`. The phase prove only
/// verifies. The phase emit is no pipeline: see EmitPhase.h.
static constexpr PhaseRow rows[] = {
    {"import", buildImport, addVerifier<nn::ModelOp, createImportVerify>},
    {"model", buildModel, addVerifier<nn::ModelOp, createModelVerify>},
    {"train", buildTrain, addVerifier<nn::ModelOp, createTrainVerify>},
    {"shard", buildShard, addVerifier<nn::ModelOp, createShardVerify>},
    {"pipe", buildPipe, verifyPipe},
    {"spmd", buildSpmd, addVerifier<nn::ModelOp, createSpmdVerify>},
    {"fuse", buildFuse, addVerifier<nn::ModelOp, createFuseVerify>},
    {"kernels", buildKernels, verifyKernels},
    {"memory", buildMemory, addVerifier<planir::ProgramOp, createMemoryVerify>},
    {"prove", buildNothing, prove},
    {"emit", buildNothing, [](OpPassManager &) {}},
};

llvm::ArrayRef<Phase> heddle::allPhases() {
  static constexpr Phase phases[] = {
      Phase::Import, Phase::Model, Phase::Train, Phase::Shard,
      Phase::Pipe,   Phase::Spmd,  Phase::Fuse,  Phase::Kernels,
      Phase::Memory, Phase::Prove, Phase::Emit};
  return phases;
}

llvm::StringRef heddle::phaseName(Phase phase) {
  return rows[static_cast<int>(phase)].name;
}

std::optional<Phase> heddle::parsePhase(llvm::StringRef name) {
  for (Phase phase : allPhases())
    if (phaseName(phase) == name)
      return phase;
  return std::nullopt;
}

void heddle::buildPhaseVerifier(Phase phase, OpPassManager &pm) {
  rows[static_cast<int>(phase)].verify(pm);
}

void heddle::buildPhase(Phase phase, OpPassManager &pm,
                        const CompileOptions &options) {
  rows[static_cast<int>(phase)].build(pm, options);
  buildPhaseVerifier(phase, pm);
}
