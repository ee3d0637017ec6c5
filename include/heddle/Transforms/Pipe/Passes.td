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

def PipeSchedule : Pass<"pipe-schedule", "::heddle::nn::ModelOp"> {
  let summary = "Cuts the model into stages and writes the schedule.";
  let description = [{
    Assigns the instances of layers to the stages of the mesh's `pipe` axis, in
    order, such that the FLOPs of the stages differ as little as possible or as
    `--pipeline-layout` says. Then generates the strategy's schedule.

    ```mlir
    pipe.stage @stage0 index 0 calls ["h.0", "h.1"]
    pipe.schedule @schedule micro_batches 2 ["F0 B0 F1 B1 O"]
    ```
  }];
  let dependentDialects = ["::heddle::pipe::PipeDialect"];
}

def PipeSplit : Pass<"pipe-split", "::mlir::ModuleOp"> {
  let summary = "Makes one model for each pipeline stage.";
  let description = [{
    Each stage gets the layers of its `pipe.stage` operations with their
    parameters, functions and updates. The loop over micro-batches becomes the
    stage's fragments in the order of its line. A value that another fragment of
    the same stage uses is saved in a slot. A value that another stage uses is
    sent from a slot, and received in the fragment that uses it. Reads of states,
    slices of inputs and all-gathers of parameters are repeated in every fragment
    that uses them. Final norm, head and loss are computed in the last stage's
    backward fragment, so that logits need not be saved.

    Before, with the mesh axis `pipe` of size 2:

    ```mlir
    nn.micro_batches 4 {
    ^bb0(%i: index):
      %x = nn.call @block.fwd(%ids) path "h.0" : ...
      %y = nn.call @block.fwd(%x) path "h.1" : ...
      ...
    }
    ```

    After, in `@gpt2.stage0`:

    ```mlir
    pipe.fragments "F0 F1 B0 F2 B1 F3 B2 B3" kinds ["F", "B"] slots [2, 2] {
    ^bb0(%i: index, %slot: index):
      %x = nn.call @block.fwd(%ids) path "h.0" : ...
      nn.set @saved.0.0[%slot], %x : tensor<1x32x256xf32>
      %s = nn.get @saved.0.0[%slot] : tensor<1x32x256xf32>
      dist.send %s to 1 on "pipe" channel "F1" : tensor<1x32x256xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      %g = dist.recv from 1 on "pipe" channel "B0" : tensor<1x32x256xf32>
      ...
    }
    ```

    If the schedule has backward passes in halves (zb-h1), each layer's backward
    function becomes two: `.input` computes the gradient that the stage before
    waits for, `.weight` the gradients of the parameters.

    A parameter that two stages use, such as tied embeddings, is on both. The
    stages add up their gradients before the update, in the same order, and one
    of them counts the sum in the norm. The norm and the loss are all-reduced
    over the stages.
  }];
  let statistics = [
    Statistic<"numStages", "stages", "Stages that became models">,
    Statistic<"numSent", "sent", "Values sent in fragments">,
    Statistic<"numSaved", "saved", "Values saved in slots">,
  ];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::heddle::pipe::PipeDialect"];
}

def PipeVerify : Pass<"pipe-verify", "::mlir::ModuleOp"> {
  let summary = "Checks what the pipe phase promises.";
  let description = [{
    Before pipe-split: every instance of a layer in the training step is in
    exactly one stage. The schedule is possible (see the verifier of
    pipe.schedule), has a line for each stage, and runs the step's micro-batches.

    After pipe-split: each model runs its line and the layers of its stages. Each
    send has one receive, of the same type and in the same kind of fragment.
    Micro-batches that are under way at the same time have different slots.
  }];
}

#endif // HEDDLE_TRANSFORMS_PIPE_PASSES
