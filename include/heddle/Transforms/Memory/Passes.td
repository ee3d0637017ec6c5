//===- Passes.td - Passes of lib/Transforms/Memory ---------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_MEMORY_PASSES
#define HEDDLE_TRANSFORMS_MEMORY_PASSES

include "mlir/Pass/PassBase.td"

def MemoryPlan : Pass<"memory-plan", "::mlir::ModuleOp"> {
  let summary = "Gives every value its bytes.";
  let description = [{
    The model becomes a `plan.program`: states get offsets in the persistent
    region, members of a bucket side by side; functions become sequences with a
    frame, whose bytes are shared by values that are not live together; the frame
    of a callee stands in its caller's while it runs. A value that is written to a
    state, or returned, is made there: no copy, unless two places want it.
    Windows of states on file are fetched as far ahead of their updates, from the
    begin of a loop over micro-batches on, as the budget has room for, or without
    a budget as takes no more memory; and so is what layers read, as many layers
    ahead, where `max_live_parameters` and `prefetch_bucket_size` of the strategy
    bound the parameters that are there and under way. Where the budget has no room for parameters
    that are gathered ahead of their use, or for windows that are fetched ahead,
    they are gathered and fetched when they are used. States outside of the
    device's memory, and windows of them, begin at pages.

    ```mlir
    %y = plan.launch @k(%x, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    // becomes
    %y = plan.buffer at 128 live [3, 5] owner "activations" : memref<4x8xf32>
    plan.launch @k(%x, %w, %y) : (memref<4x8xf32>, memref<8xf32>, memref<4x8xf32>) -> ()
    ```
  }];
  let options = [
    Option<"shrink", "shrink-pages", "int64_t", "0",
           "Make the arena smaller than needed by so many pages (for tests of "
           "the checker)">
  ];
  let dependentDialects = ["::heddle::planir::PlanDialect",
                           "::mlir::memref::MemRefDialect"];
  let statistics = [
    Statistic<"numCopies", "copies", "Values that had to be copied">,
    Statistic<"numEarly", "early",
              "Windows, and layers with fetches, that are fetched earlier">,
    Statistic<"numCarried", "carried", "Stores that the next run waits for">,
    Statistic<"numDelayed", "delayed",
              "Gathers and fetches that were to run ahead, and had no room">
  ];
}

def MemoryVerify : Pass<"memory-verify", "::mlir::ModuleOp"> {
  let summary = "Checks the plan's bytes, from the plan alone.";
  let description = [{
    In every sequence: each buffer lies in the frame, begins at a multiple of 64,
    and shares no byte with a buffer, or the frame of a call, that is live at the
    same command; every command uses a buffer only while it is live. States do not
    overlap and lie in the persistent region; frames and scratch fit the arena.
  }];
}

#endif // HEDDLE_TRANSFORMS_MEMORY_PASSES
