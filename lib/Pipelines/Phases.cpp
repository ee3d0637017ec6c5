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
  // This pass needs the forward function, which the importer or the user wrote.
  ImportDeriveProgramsOptions programs;
  programs.guesses = options.guesses;
  pm.addNestedPass<nn::ModelOp>(createImportDerivePrograms(programs));
  // This pass needs the programs, because the size of the cache follows from
  // their rows and tokens.
  ImportAddCacheOptions cache;
  cache.pages = options.cachePages;
  pm.addNestedPass<nn::ModelOp>(createImportAddCache(cache));
}

static void buildModel(OpPassManager &pm, const CompileOptions &) {
  // This pass chooses the element types of the forward pass. It runs before
  // differentiation, which gives gradients the same types.
  pm.addNestedPass<nn::ModelOp>(createModelApplyPrecision());
}

static void buildTrain(OpPassManager &pm, const CompileOptions &options) {
  // The pass `train-split-layers` runs before `train-build-steps`, because it
  // takes the program `eval` apart while that is still a function.
  if (options.splitLayers != LayerPrograms::None) {
    TrainSplitLayersOptions split;
    split.sequential = options.splitLayers == LayerPrograms::Sequential;
    pm.addNestedPass<nn::ModelOp>(createTrainSplitLayers(split));
  }
  // This pass runs before `train-differentiate`, which makes no gradients for
  // parameters that are not trainable.
  pm.addNestedPass<nn::ModelOp>(createTrainFreezeParameters());
  // This pass leaves out parameters that `train-freeze-parameters` finds. It
  // runs before `train-differentiate`, which differentiates with respect to the
  // copies that this pass adds.
  pm.addNestedPass<nn::ModelOp>(createTrainQuantizeWeights());
  // This pass makes the loop over micro-batches. It runs before
  // `train-differentiate`, which works on the body of that loop.
  pm.addNestedPass<nn::ModelOp>(createTrainBuildSteps());
  // This pass needs the training step of `train-build-steps`, whose calls it
  // makes conditional. It runs before `train-differentiate`, which gives the
  // calls of the backward pass the same conditions.
  pm.addNestedPass<nn::ModelOp>(createTrainDropLayers());
  // This pass needs the training step of `train-build-steps`, because it sets
  // at each call of a layer which activations are saved. It runs before
  // `train-differentiate`, which saves these activations.
  pm.addNestedPass<nn::ModelOp>(createTrainRecompute());
  // This pass needs the loop of `train-build-steps`, and the recomputation
  // policy that `train-recompute` sets at each call of a layer.
  pm.addNestedPass<nn::ModelOp>(createTrainDifferentiate());
  // This pass tells the backward pass, which `train-differentiate` adds, from
  // the forward pass. It runs before `train-optimizer`, which divides gradients
  // by the loss scale.
  pm.addNestedPass<nn::ModelOp>(createTrainScaleLoss());
  // This pass needs the states with gradients that `train-differentiate` makes.
  pm.addNestedPass<nn::ModelOp>(createTrainOptimizer());
  // This pass needs the updates of `train-optimizer`, after which it quantizes
  // the weights.
  pm.addNestedPass<nn::ModelOp>(createTrainQuantizeCopies());
}

static void buildFuse(OpPassManager &pm, const CompileOptions &options) {
  // This pass gives weights the layout that kernels read: it packs them. It
  // needs the local shapes of spmd, because each rank packs its own shard. It
  // runs before kernels are formed, because a product with a packed weight is
  // another operation, for which another code generator is used.
  pm.addPass(createFusePackWeights());
  OpPassManager &models = pm.nest<nn::ModelOp>();
  // Each of the next three passes splits one operation into two that must be in
  // different kernels, so they run before kernels are formed.
  models.addPass(createFuseSplitAttention());
  models.addPass(createFuseSplitNorms());
  models.addPass(createFuseSplitSums());
  // This pass moves the products of `fuse-pack-weights` with the same input,
  // such as q, k and v, next to each other. It runs before `fuse-form-kernels`,
  // which joins only adjacent products.
  models.addPass(createFuseGatherProducts());
  // This pass needs the final list of operations, because this pass puts all of
  // them into kernels.
  FuseFormKernelsOptions fuse;
  fuse.remarks = options.verbose;
  models.addPass(createFuseFormKernels(fuse));
  // This pass needs the kernels, because a value may have padding only if
  // kernels alone read and write it.
  models.addPass(createFusePadRows());
}

static void buildShard(OpPassManager &pm, const CompileOptions &options) {
  OpPassManager &models = pm.nest<nn::ModelOp>();
  // This pass runs first, because all following passes read the axes from the
  // mesh.
  models.addPass(createShardMakeMesh());
  // This pass runs before reductions are placed, because reductions transfer
  // gradients in the type that this pass gives them.
  models.addPass(createShardNarrowGradients());
  // This pass separates the additions of gradients over micro-batches from the
  // products that compute the gradients. It runs before
  // `shard-partition-states`, which inserts reduce-scatters before these
  // additions.
  models.addPass(createShardSeparateSums());
  // This pass splits parameters over tensor ranks. It runs before
  // `shard-partition-states`, because ZeRO then splits each tensor rank's shard
  // over replicas.
  models.addPass(createShardSplitParameters({options.shardingReasons}));
  // This pass runs before the sharding plan is made, which derives the
  // shardings of values from the shardings of states.
  models.addPass(createShardPartitionStates({options.shardingReasons}));
  // This pass needs the buckets (flat buffers of several states) that
  // `shard-partition-states` makes, because a bucket is offloaded as a whole.
  models.addPass(createShardPlaceStates());
  // This pass needs the buckets: it delays the reduction of a bucket's
  // gradients over tensor ranks to the end of the step if this is possible for
  // every gradient in the bucket. It changes the shardings of these gradients.
  models.addPass(createShardDeferGradientReduction({options.shardingReasons}));
  // This pass makes the sharding plan from the shardings of states. It runs
  // after the last pass that changes these shardings.
  models.addPass(createShardPropagate({options.shardingReasons}));
  // This pass needs the sharding plan, and writes it into the module.
  models.addPass(createShardInsertReshards());
  // This pass needs the reshards. If the backward pass would repeat a reshard
  // of the forward pass, this pass saves the resharded value instead.
  models.addPass(createShardSaveResharded({options.shardingReasons}));
}

static void buildPipe(OpPassManager &pm, const CompileOptions &) {
  // This pass needs the whole model, because this pass balances the arithmetic
  // of the layers' calls between stages.
  pm.addNestedPass<nn::ModelOp>(createPipeSchedule());
  // This pass needs the stages and their schedule. All later passes see one
  // model for each stage.
  pm.addPass(createPipeSplit());
}

static void buildSpmd(OpPassManager &pm, const CompileOptions &) {
  // This pass needs shardings, by which it finds activations that all tensor
  // ranks hold. It runs before `spmd-localize`, which replaces shardings by
  // local shapes.
  pm.addPass(createSpmdPartitionActivations());
  // This pass needs the reshards of `spmd-partition-activations`, because this
  // pass turns all reshards into collectives, and removes the shardings.
  pm.addNestedPass<nn::ModelOp>(createSpmdLocalize());
  // This pass needs local shapes, because a rank packs the signs of what it has
  // itself. It runs before `spmd-overlap`, which starts its collectives early.
  pm.addNestedPass<nn::ModelOp>(createSpmdExpandAverages());
  // This pass needs local shapes, because it divides the tokens of a single
  // rank into chunks. It moves whole collectives into the chunks. Therefore it
  // runs before `spmd-overlap`, which separates the starts of collectives from
  // their waits.
  pm.addNestedPass<nn::ModelOp>(createSpmdChunkTokens());
  // This pass needs the chunks of tokens, whose products it tiles. It replaces
  // the all-gather or fetch of a whole parameter by one for each tile of rows.
  // Therefore it runs before all-gathers and fetches are started early.
  pm.addPass(createSpmdTileProducts());
  // This pass needs all collectives, including those for single tiles of rows.
  // It starts collectives early and waits for them late, so that they overlap
  // with computation.
  pm.addNestedPass<nn::ModelOp>(createSpmdOverlap());
  // This pass needs the waits of `spmd-overlap`, because an update can only
  // move up to the wait for its reduced gradients. It runs before
  // `spmd-stream-states`, which transfers ranges of states in the order of the
  // updates.
  pm.addNestedPass<nn::ModelOp>(createSpmdAdvanceUpdates());
  // This pass lets the first micro-batch add gradients to zeros on the device,
  // so that this micro-batch fetches no gradients. The pass runs before
  // `spmd-stream-gradients`, which adds the fetches.
  pm.addNestedPass<nn::ModelOp>(createSpmdStartGradients());
  // This pass needs the final positions of all-gathers and updates: it fetches
  // a parameter one layer before the first all-gather or update that reads the
  // parameter.
  pm.addNestedPass<nn::ModelOp>(createSpmdFetchParameters());
  // This pass needs the waits of `spmd-overlap`, because it stores reduced
  // gradients after these waits. It computes the gradient norm from sums of
  // squares. It runs before `spmd-stream-states`, which splits these sums into
  // one for each tile.
  pm.addNestedPass<nn::ModelOp>(createSpmdStreamGradients());
  // This pass needs the final order of updates, because the host computes the
  // first ones. It runs before `spmd-stream-states`, which transfers the states
  // of all other updates to the device and back.
  pm.addPass(createSpmdHostUpdates());
  // This pass needs the updates that the device computes, in their final order.
  pm.addNestedPass<nn::ModelOp>(createSpmdStreamStates());
  // This pass needs the all-gathers and fetches of weights, to know that these
  // values are no activations.
  pm.addPass(createSpmdStreamActivations());
  // This pass runs last, because it needs all transfers and their final users.
  pm.addNestedPass<nn::ModelOp>(createSpmdConditionTransfers());
}

static void buildKernels(OpPassManager &pm, const CompileOptions &options) {
  // This pass compiles the bodies of `plan.kernel`. It needs the leading
  // dimensions of the kernels' operands, which `fuse-pad-rows` sets.
  KernelsCompileOptions kernels;
  kernels.cache = options.cache;
  kernels.sizesOnly = !options.makesCode();
  pm.addPass(createKernelsCompile(kernels));
}

static void buildMemory(OpPassManager &pm, const CompileOptions &) {
  // This pass needs compiled kernels, because their scratch memory is part of
  // the arena.
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

/// The passes and the verifier of each phase, in the order of `Phase`. The
/// verifier of the memory phase reads only the plan, not the data of the
/// planner, so it finds errors of `memory-plan`. The phase prove only verifies.
/// The phase emit is no pipeline: see EmitPhase.h.
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
