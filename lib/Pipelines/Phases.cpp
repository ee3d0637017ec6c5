//===- Phases.cpp - The passes of each phase, and why they stand there ----===//
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

static constexpr Phase phases[] = {Phase::Import, Phase::Model,   Phase::Train,
                                   Phase::Shard,  Phase::Pipe,    Phase::Spmd,
                                   Phase::Fuse,   Phase::Kernels, Phase::Memory,
                                   Phase::Prove,  Phase::Emit};

llvm::ArrayRef<Phase> heddle::allPhases() { return phases; }

llvm::StringRef heddle::phaseName(Phase phase) {
  static constexpr llvm::StringLiteral names[] = {
      "import", "model",   "train",  "shard", "pipe", "spmd",
      "fuse",   "kernels", "memory", "prove", "emit"};
  return names[static_cast<int>(phase)];
}

std::optional<Phase> heddle::parsePhase(llvm::StringRef name) {
  for (Phase phase : phases)
    if (phaseName(phase) == name)
      return phase;
  return std::nullopt;
}

void heddle::buildPhaseVerifier(Phase phase, OpPassManager &pm) {
  switch (phase) {
  case Phase::Import:
    pm.addPass(createImportVerify());
    return;
  case Phase::Model:
    pm.addPass(createModelVerify());
    return;
  case Phase::Train:
    pm.addPass(createTrainVerify());
    return;
  case Phase::Shard:
    pm.addPass(createShardVerify());
    return;
  case Phase::Pipe:
    pm.addPass(createPipeVerify());
    return;
  case Phase::Spmd:
    pm.addPass(createSpmdVerify());
    return;
  case Phase::Fuse:
    pm.addPass(createFuseVerify());
    return;
  case Phase::Kernels:
    pm.addPass(createKernelsVerify());
    return;
  case Phase::Memory:
    // From the plan's text alone: it shares no code with the planner.
    pm.addPass(createMemoryVerify());
    return;
  case Phase::Prove:
    pm.addPass(createProveDataflow());
    pm.addPass(createProveCommunication());
    return;
  case Phase::Emit:
    return;
  }
}

static void buildImport(OpPassManager &pm, const CompileOptions &options) {
  ImportDeriveProgramsOptions programs;
  programs.guesses = options.guesses;
  pm.addPass(createImportDerivePrograms(programs));
  // Of the programs' sizes: attention in the forward function has no cache.
  ImportAddCacheOptions cache;
  cache.pages = options.cachePages;
  pm.addPass(createImportAddCache(cache));
}

static void buildModel(OpPassManager &pm) {
  // Before gradients are taken: their types follow from the forward pass.
  pm.addPass(createModelApplyPrecision());
}

static void buildTrain(OpPassManager &pm, const CompileOptions &options) {
  // Functions are whole programs still.
  if (options.splitLayers != LayerPrograms::None) {
    TrainSplitLayersOptions split;
    split.sequential = options.splitLayers == LayerPrograms::Sequential;
    pm.addPass(createTrainSplitLayers(split));
  }
  // Steps first: differentiation works on the body of a micro-batch.
  pm.addPass(createTrainFreezeParameters());
  pm.addPass(createTrainBuildSteps());
  // The policy must stand at the calls before forward functions are made.
  pm.addPass(createTrainRecompute());
  pm.addPass(createTrainDifferentiate());
  // Reads the gradients that differentiation left in states.
  pm.addPass(createTrainOptimizer());
}

static void buildFuse(OpPassManager &pm, const CompileOptions &options) {
  // Parts of weights are final: each rank packs its own.
  pm.addPass(createFusePackWeights());
  // Before kernels are formed: each half is one.
  pm.addPass(createFuseSplitAttention());
  pm.addPass(createFuseSplitNorms());
  pm.addPass(createFuseSplitSums());
  pm.addPass(createFuseGatherProducts());
  FuseFormKernelsOptions fuse;
  fuse.remarks = options.verbose;
  pm.addPass(createFuseFormKernels(fuse));
  // Who reads and writes a value is known.
  pm.addPass(createFusePitchRows());
}

static void buildShard(OpPassManager &pm, const CompileOptions &options) {
  // Everything below reads axes from the mesh.
  pm.addPass(createShardMakeMesh());
  pm.addPass(createShardNarrowGradients());
  pm.addPass(createShardSeparateSums());
  // Storage first, values follow from it: what an operation needs split, then
  // what ranks need not hold twice.
  pm.addPass(createShardSplitParameters({options.shardingReasons}));
  pm.addPass(createShardPartitionStates({options.shardingReasons}));
  // Whole buckets are placed: which there are is known.
  pm.addPass(createShardPlaceStates());
  pm.addPass(createShardDeferGradientReduction({options.shardingReasons}));
  pm.addPass(createShardPropagate({options.shardingReasons}));
  // Storage is final: the plan is written.
  pm.addPass(createShardInsertReshards());
  // What is exchanged for whom is known.
  pm.addPass(createShardSaveResharded({options.shardingReasons}));
}

static void buildPipe(OpPassManager &pm) {
  pm.addPass(createPipeSchedule());
  // Once the stages and their lines are known; what follows is one model of
  // its own for each stage.
  pm.addPass(createPipeSplit());
}

static void buildSpmd(OpPassManager &pm) {
  // While values say which ranks hold them alike.
  pm.addPass(createSpmdPartitionActivations());
  pm.addPass(createSpmdLocalize());
  // Of a rank's tokens; what is gathered for a chunk is not waited for later.
  pm.addPass(createSpmdChunkTokens());
  // Of whole products of a chunk. Before what brings whole parameters.
  pm.addPass(createSpmdTileProducts());
  // Collectives are there from here on.
  pm.addPass(createSpmdOverlap());
  // Behind what waits for sums of gradients. Before windows are cut, which
  // follow each other.
  pm.addPass(createSpmdAdvanceUpdates());
  // Before gradients are fetched.
  pm.addPass(createSpmdStartGradients());
  // What is gathered ahead, and updated early, has its place.
  pm.addPass(createSpmdFetchParameters());
  // Behind what sums gradients, and before windows are cut of what is left.
  pm.addPass(createSpmdStreamGradients());
  // What it leaves goes through the device's memory.
  pm.addPass(createSpmdHostUpdates());
  // Windows are of what a rank holds.
  pm.addPass(createSpmdStreamStates());
  // Behind what gathers and fetches weights: those are none.
  pm.addPass(createSpmdStreamActivations());
}

static void buildKernels(OpPassManager &pm, const CompileOptions &options) {
  KernelsCompileOptions kernels;
  kernels.cache = options.cache;
  kernels.sizesOnly = !options.makesCode();
  pm.addPass(createKernelsCompile(kernels));
}

static void buildMemory(OpPassManager &pm) { pm.addPass(createMemoryPlan()); }

void heddle::buildPhase(Phase phase, OpPassManager &pm,
                        const CompileOptions &options) {
  switch (phase) {
  case Phase::Import: // The importer has written the forward function.
    buildImport(pm, options);
    break;
  case Phase::Prove: // Nothing is made, all is checked.
  case Phase::Emit:
    break;
  case Phase::Model:
    buildModel(pm);
    break;
  case Phase::Train:
    buildTrain(pm, options);
    break;
  case Phase::Shard:
    buildShard(pm, options);
    break;
  case Phase::Pipe:
    buildPipe(pm);
    break;
  case Phase::Spmd:
    buildSpmd(pm);
    break;
  case Phase::Fuse:
    buildFuse(pm, options);
    break;
  case Phase::Kernels:
    buildKernels(pm, options);
    break;
  case Phase::Memory:
    buildMemory(pm);
    break;
  }
  buildPhaseVerifier(phase, pm);
}
