//===- Passes.td - Passes of lib/Codegen/CPU ------------------*- tablegen -*-==//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_CPU_PASSES
#define HEDDLE_CODEGEN_CPU_PASSES

include "mlir/Pass/PassBase.td"

def CpuCompileKernels : Pass<"cpu-compile-kernels", "::mlir::ModuleOp"> {
  let summary = "Compiles every distinct plan.kernel to an x86-64 object.";
  let description = [{
    Merges kernels whose bodies are equal (except for names, module paths and
    shardings): one kernel remains, and launches of the others are redirected to
    it. Compiles each remaining kernel separately, on as many threads as the
    machine has, or takes its object from the cache. The cache is a directory of
    objects named by the hash of the body, the target and this compiler. The
    target is that of the model's strategy.

    ```mlir
    plan.kernel @add(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} { ... }
    ```
    becomes
    ```mlir
    plan.kernel @add(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32>
        attributes {generator = #plan.generator<rows>, hash = "5d0...", object = @add.o,
                    scratch_bytes = 0 : i64, symbol = "k_add_5d01cf3a8ab2",
                    ties = array<i64: -1>} { ... }
    plan.object @add.o "f0VMRgIBAQ..." {hash = "81c..."}
    ```
  }];
  let options = [
    Option<"cache", "cache", "std::string", "",
           "Directory of compiled kernels; empty or off: none">,
    Option<"sizesOnly", "sizes-only", "bool", "false",
           "Leave functions empty and cache nothing; only scratch sizes are computed">,
    Option<"march", "march", "std::string", "",
           "The CPU to compile for; empty: that of the strategy">
  ];
  let statistics = [
    Statistic<"numCompiled", "compiled", "Kernels that were compiled">,
    Statistic<"numCached", "cached", "Kernels that were found in the cache">,
    Statistic<"numShared", "shared", "Kernels that were merged with an equal one">
  ];
  let dependentDialects = ["::heddle::planir::PlanDialect"];
}

#endif // HEDDLE_CODEGEN_CPU_PASSES
