//===- Passes.td - Passes of lib/Transforms/Spmd -----------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_SPMD_PASSES
#define HEDDLE_TRANSFORMS_SPMD_PASSES

include "mlir/Pass/PassBase.td"

def SpmdLocalize : Pass<"spmd-localize", "::mlir::ModuleOp"> {
  let summary = "Goes from the shapes of the whole to those of one rank.";
  let description = [{
    Removes the shardings of values that are whole on every rank. What is split
    over several ranks, and reshards between them, need collectives, which this
    version has none of: an error names the value.
  }];
}

def SpmdVerify : Pass<"spmd-verify", "::mlir::ModuleOp"> {
  let summary = "Checks what the spmd phase promises.";
  let description = [{ No sharding and no reshard is left. }];
}

#endif // HEDDLE_TRANSFORMS_SPMD_PASSES
