//===- Registration.cpp - Registers dialects, passes and targets ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Pipe/PipeDialect.h"
#include "heddle/Codegen/CPU/CpuBackEnd.h"
#include "heddle/Codegen/CPU/KernelCompiler.h"
#include "heddle/Codegen/CPU/Passes.h"
#include "heddle/Codegen/Common/LinalgLowerings.h"
#include "heddle/Codegen/Common/Passes.h"
#include "heddle/Codegen/GPU/GpuBackEnd.h"
#include "heddle/Codegen/GPU/Kernels.h"
#include "heddle/Codegen/GPU/Passes.h"
#include "heddle/Eval/ReferenceEvaluations.h"
#include "heddle/Pipelines/PhaseOrder.h"
#include "heddle/Transforms/Fuse/Passes.h"
#include "heddle/Transforms/Import/Passes.h"
#include "heddle/Transforms/Memory/Passes.h"
#include "heddle/Transforms/Model/Passes.h"
#include "heddle/Transforms/Pipe/Passes.h"
#include "heddle/Transforms/Prove/Passes.h"
#include "heddle/Transforms/Shard/Passes.h"
#include "heddle/Transforms/Spmd/Passes.h"
#include "heddle/Transforms/Train/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include <mutex>

using namespace mlir;
using namespace heddle;

/// Registers the targets on its first call. Any thread may call it.
static void registerTargets() {
  static std::once_flag once;
  std::call_once(once, [] {
    codegen::registerTarget(cpu::createBackEnd());
    for (config::Target chip : {config::Target::SM_80, config::Target::SM_90})
      codegen::registerTarget(heddle::gpu::createBackEnd(chip));
  });
}

void heddle::registerAllDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, dist::DistDialect, nn::NNDialect,
                  pipe::PipeDialect, planir::PlanDialect>();
  codegen::registerLinalgLowerings(registry);
  cpu::registerKernelCompiler(registry);
  gpu::registerGpuCodegen(registry);
  registerTargets();
  eval::registerReferenceEvaluations(registry);
}

void heddle::registerAllPasses() {
  registerImportPasses();
  registerModelPasses();
  registerTrainPasses();
  registerFusePasses();
  registerMemoryPasses();
  registerPipePasses();
  registerProvePasses();
  registerShardPasses();
  registerSpmdPasses();
  registerCodegenPasses();
  registerCpuPasses();
  registerGpuMapKernels();
  registerGpuLowerToNvvm();
  registerGpuCompileKernels();
  registerCanonicalizerPass();
  registerCSEPass();
  registerSymbolDCEPass();
  static std::vector<std::unique_ptr<PassPipelineRegistration<>>> pipelines;
  for (Phase phase : allPhases())
    pipelines.push_back(std::make_unique<PassPipelineRegistration<>>(
        ("phase-" + phaseName(phase)).str(),
        ("The phase " + phaseName(phase)).str(),
        [phase](OpPassManager &pm) { buildPhaseOfDump(phase, pm); }));
}
