//===- Passes.td - Passes of lib/Transforms/Pipe -----------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_PIPE_PASSES
#define HEDDLE_TRANSFORMS_PIPE_PASSES

include "mlir/Pass/PassBase.td"

def PipeSchedule : Pass<"pipe-schedule", "::mlir::ModuleOp"> {
  let summary = "Cuts the model into stages and writes the schedule.";
  let description = [{
    The layers' instances are dealt to the stages of the mesh's `pipe` axis, in
    order and as evenly as their arithmetic allows; the strategy's schedule is
    made for them.

    ```mlir
    pipe.stage @stage0 index 0 calls ["h.0", "h.1"]
    pipe.schedule @schedule kind "1f1b" micro_batches 2 ["F0 B0 F1 B1 O"]
    ```
  }];
  let dependentDialects = ["::heddle::pipe::PipeDialect"];
}

def PipeVerify : Pass<"pipe-verify", "::mlir::ModuleOp"> {
  let summary = "Checks what the pipe phase promises.";
  let description = [{
    Every instance of a layer in the training step is in exactly one stage; the
    schedule is possible (the verifier of pipe.schedule), has a line for each
    stage, and runs the micro-batches that the step has.
  }];
}

#endif // HEDDLE_TRANSFORMS_PIPE_PASSES
