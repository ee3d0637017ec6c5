//===- Passes.td - Passes of lib/Transforms/Model ----------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_MODEL_PASSES
#define HEDDLE_TRANSFORMS_MODEL_PASSES

include "mlir/Pass/PassBase.td"

def ModelApplyPrecision : Pass<"model-apply-precision", "::heddle::nn::ModelOp"> {
  let summary = "Makes the compute precision explicit.";
  let description = [{
    With a compute precision other than fp32, every activation gets that element
    type. If the model is trained, every parameter gets a `derived` state, a copy in
    that precision, which functions read instead; the parameter becomes the f32
    master weight. Else the parameters themselves get the type. Statistics,
    log-sum-exps and losses stay f32, and so does what a map computes from a norm's
    weight, such as Gemma's 1 + w. With fp32 the pass changes nothing.

    ```mlir
    %w = nn.get @ln_f.weight : tensor<768xf32>
    // becomes, for bf16
    %w = nn.get @ln_f.weight.bf16 : tensor<768xbf16>
    ```
  }];
  let dependentDialects = ["::heddle::nn::NNDialect"];
  let statistics = [
    Statistic<"numCopies", "copies", "Parameters that got a copy">
  ];
}

def ModelVerify : Pass<"model-verify", "::heddle::nn::ModelOp"> {
  let summary = "Checks what the model phase promises.";
  let description = [{
    Every parameter (or its copy) is read by some function, every floating-point
    activation has the strategy's compute precision, and there are only forward
    operations.
  }];
}

#endif // HEDDLE_TRANSFORMS_MODEL_PASSES
