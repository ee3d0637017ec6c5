//===- Phases.cpp - The passes of each phase, and why they stand there ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Compile.h"
#include "heddle/Transforms/Fuse/Passes.h"
#include "heddle/Transforms/Model/Passes.h"
#include "heddle/Transforms/Train/Passes.h"

using namespace mlir;
using namespace heddle;

static constexpr Phase phases[] = {
    Phase::Import,  Phase::Model,  Phase::Train,  Phase::Shard,
    Phase::Pipe,    Phase::Spmd,   Phase::Fuse,   Phase::Kernels,
    Phase::Memory,  Phase::Prove,  Phase::Emit};

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

static void buildModel(OpPassManager &pm) {
  // Before gradients are taken: their types follow from the forward pass.
  pm.addPass(createModelApplyPrecision());
  pm.addPass(createModelVerify());
}

static void buildTrain(OpPassManager &pm) {
  // Steps first: differentiation works on the body of a micro-batch.
  pm.addPass(createTrainBuildSteps());
  // The policy must stand at the calls before forward functions are made.
  pm.addPass(createTrainRecompute());
  pm.addPass(createTrainDifferentiate());
  // Reads the gradients that differentiation left in states.
  pm.addPass(createTrainOptimizer());
  pm.addPass(createTrainVerify());
}

static void buildFuse(OpPassManager &pm, const CompileOptions &options) {
  FuseFormKernelsOptions fuse;
  fuse.remarks = options.verbose;
  pm.addPass(createFuseFormKernels(fuse));
  pm.addPass(createFuseVerify());
}

void heddle::buildPhase(Phase phase, OpPassManager &pm,
                        const CompileOptions &options) {
  switch (phase) {
  case Phase::Import:
    return;
  case Phase::Model:
    return buildModel(pm);
  case Phase::Train:
    return buildTrain(pm);
  case Phase::Fuse:
    return buildFuse(pm, options);
  case Phase::Shard:
  case Phase::Pipe:
  case Phase::Spmd:
  case Phase::Kernels:
  case Phase::Memory:
  case Phase::Prove:
  case Phase::Emit:
    return;
  }
}
