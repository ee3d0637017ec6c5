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
  let summary = "Assigns memory to every value, and emits the plan.";
  let description = [{
    The model becomes a `plan.program`. States get offsets in the persistent region; the
    members of a bucket are adjacent. Functions become command sequences with a frame.
    Values that are not live at the same time share bytes of the frame, and the frame of
    a callee lies in its caller's frame while it runs. A value that is returned or
    written to a state is computed in that memory. It is copied only if it is needed in
    two places. Offloaded states and the buffers for their tiles begin at pages.

    Fetches of offloaded states move as far ahead of their use as `--memory-budget`
    allows; without a budget, as far as the frame does not grow. Tiles of states may be
    fetched from the beginning of the loop over micro-batches on. Parameters and
    activations are fetched several layers ahead, within the strategy's
    `max_live_parameters` and `prefetch_bucket_size`. If the budget has no room for an
    all-gather or a fetch that starts ahead of its use, it starts when its result is
    used.

    ```mlir
    %y = plan.launch @k(%x, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    // becomes
    %y = plan.buffer at 128 live [3, 5] owner "activations" : memref<4x8xf32>
    plan.launch @k(%x, %w, %y) : (memref<4x8xf32>, memref<8xf32>, memref<4x8xf32>) -> ()
    ```
  }];
  let options = [
    Option<"shrink", "shrink-pages", "int64_t", "0",
           "Make the arena that many pages too small (for tests of the "
           "verifier)">
  ];
  let dependentDialects = ["::heddle::planir::PlanDialect",
                           "::mlir::memref::MemRefDialect"];
  let statistics = [
    Statistic<"numCopies", "copies", "Values that had to be copied">,
    Statistic<"numEarly", "early",
              "Tiles, and layers with fetches, that are fetched earlier">,
    Statistic<"numCarried", "carried", "Stores that the next run of the step waits for">,
    Statistic<"numDelayed", "delayed",
              "All-gathers and fetches that start late for lack of memory">
  ];
}

def MemoryVerify : Pass<"memory-verify", "::heddle::planir::ProgramOp"> {
  let summary = "Checks the plan's bytes, from the plan alone.";
  let description = [{
    Reads the plan alone, so that an error in `memory-plan` cannot hide. In every command
    sequence, each buffer lies in the frame, begins at a multiple of 64 bytes, and shares
    no byte with a buffer or a callee's frame that is live at the same command. Every command uses a buffer only
    while it is live. States lie in the persistent region and do not overlap. Frames and
    scratch memory fit into the arena.
  }];
}

#endif // HEDDLE_TRANSFORMS_MEMORY_PASSES
