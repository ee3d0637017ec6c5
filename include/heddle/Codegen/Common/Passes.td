//===- Passes.td - Passes of lib/Codegen/Common ------------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_PASSES
#define HEDDLE_CODEGEN_COMMON_PASSES

include "mlir/Pass/PassBase.td"

def KernelsCompile : Pass<"kernels-compile", "::mlir::ModuleOp"> {
  let summary = "Compiles every kernel for the target of the strategy.";
  let description = [{
    Finds the back end of the strategy's target in the registry of targets and
    runs the passes that the back end adds: `cpu-compile-kernels` for x86-64,
    `gpu-compile-kernels` for a GPU.

    ```mlir
    plan.kernel @add(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32>
        attributes {generator = #plan.generator<rows>, ...} { ... }
    ```
    becomes
    ```mlir
    plan.kernel @add(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32>
        attributes {generator = #plan.generator<rows>, object = @add.o, ...} { ... }
    plan.object @add.o "f0VMRgIBAQ..."
    ```
  }];
  let options = [
    Option<"cache", "cache", "std::string", "",
           "Directory of compiled kernels; empty or off: none">,
    Option<"sizesOnly", "sizes-only", "bool", "false",
           "Leave functions for x86-64 empty, for plans that will not run">
  ];
}

def KernelsVerify : Pass<"kernels-verify", "::mlir::ModuleOp"> {
  let summary = "Verifies the compiled kernels after the kernels phase.";
  let description = [{
    The target of the strategy checks the code of its kernels.

    For x86-64, every kernel must name an object that exists. The object must
    have the hash that compilation gave it, define the kernel's symbol, and call
    no external function except memcpy, memmove and memset. The kernel must have
    the hash of the source from which the object was compiled for this target.

    For a GPU, every object must hold PTX for the strategy's chip with the
    kernel's entry and the size of its launch.

    ```mlir
    plan.kernel @add(...) attributes {object = @add.o, symbol = "k_add_5d01", ...} { ... }
    ```
    is an error if there is no `plan.object @add.o`, or if that object does not
    define `k_add_5d01`.
  }];
  let dependentDialects = ["::heddle::planir::PlanDialect"];
}

#endif // HEDDLE_CODEGEN_COMMON_PASSES
