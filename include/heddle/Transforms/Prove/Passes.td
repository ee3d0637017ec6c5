//===- Passes.td - Passes of lib/Transforms/Prove ----------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_PROVE_PASSES
#define HEDDLE_TRANSFORMS_PROVE_PASSES

include "mlir/Pass/PassBase.td"

def ProveDataflow : Pass<"prove-dataflow", "::mlir::ModuleOp"> {
  let summary = "Proves that nothing is read before it is written, or after it is lost.";
  let description = [{
    Runs every step program on bytes that remember who wrote them: sequences are
    entered with the addresses of their arguments, loops run their first two
    iterations. Every read must find the bytes of its buffer as that buffer's own
    last writer left them. States hold what earlier steps left; inputs are written
    by the runtime.
  }];
  let statistics = [
    Statistic<"numCommands", "commands", "Commands that were executed">
  ];
}

#endif // HEDDLE_TRANSFORMS_PROVE_PASSES
