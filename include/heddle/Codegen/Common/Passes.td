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
    The strategy names a target; the registry of targets has its back end, and
    that says which passes compile its kernels: `cpu-compile-kernels` for x86-64,
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
           "Directory of compiled kernels; empty or off for none">,
    Option<"sizesOnly", "sizes-only", "bool", "false",
           "Kernels for x86-64 get empty functions: for plans that nobody runs">
  ];
}

def KernelsVerify : Pass<"kernels-verify", "::mlir::ModuleOp"> {
  let summary = "Checks what the kernels phase promises.";
  let description = [{
    The target of the strategy checks the code of its kernels. For x86-64: every
    kernel is what its code was compiled from, for this target; it names an
    object that is there, is the code that was compiled, defines the kernel's
    symbol, and needs nothing from outside but memcpy, memmove and memset. For a
    GPU: what objects there are hold PTX for this chip, with the kernel's entry
    and a launch.

    ```mlir
    plan.kernel @add(...) attributes {object = @add.o, symbol = "k_add_5d01", ...} { ... }
    ```
    is refused when there is no `plan.object @add.o`, or when that does not define
    `k_add_5d01`.
  }];
  let dependentDialects = ["::heddle::planir::PlanDialect"];
}

#endif // HEDDLE_CODEGEN_COMMON_PASSES
