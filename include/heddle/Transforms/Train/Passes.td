//===- Passes.td - Passes of lib/Transforms/Train ----------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_TRAIN_PASSES
#define HEDDLE_TRANSFORMS_TRAIN_PASSES

include "mlir/Pass/PassBase.td"

def TrainSplitLayers : Pass<"train-split-layers", "::heddle::nn::ModelOp"> {
  let summary = "Makes programs of each layer, for its calibration.";
  let description = [{
    Takes the place of all programs but `eval`, from which it is made. The
    program `layer.N` computes the N-th call of a layer from the hidden states
    that the call before it gave, the first one from the batch. `inputs.N.0` gives
    the second moments of what the layer's products with a parameter read, the
    sum over tokens of x[i] x[j], under the parameter's name. A host that keeps
    the hidden states goes through the model layer by layer, and may change a
    layer's parameters before it goes on. With `sequential` the products that read
    one value have a program of their own, `inputs.N.0`, `inputs.N.1` and so on in
    the order in which they are computed: the host may change the parameters of
    one stage before it runs the next. Refused (H0153) is a model with a layer
    that reads anything else that layers give.

    ```mlir
    nn.func @evaluate(%ids: tensor<2x8xi32>, ...) attributes {program = #nn.program<eval>, ...} {
      ...
      %y = nn.call @block(%x, %w) path "h.1" : ...
    // becomes, beside it
    nn.func @layer.1(%x: tensor<2x8x64xf32>) -> tensor<2x8x64xf32>
        attributes {program = #nn.program<encode>, inputs = [#nn.port<hidden, "before">],
                    outputs = [#nn.port<hidden>]}
    nn.func @inputs.1.0(%x: tensor<2x8x64xf32>) -> tensor<64x64xf32>
        attributes {program = #nn.program<encode>, inputs = [#nn.port<hidden, "before">],
                    outputs = [#nn.port<value, "value.h.1.w">]}
    ```
  }];
  let options = [
    Option<"sequential", "sequential", "bool", "false",
           "A program of its own for the products that read one value">];
  let dependentDialects = ["::heddle::nn::NNDialect"];
}

def TrainBuildSteps : Pass<"train-build-steps", "::heddle::nn::ModelOp"> {
  let summary = "Makes a step program from every function marked as a program.";
  let description = [{
    The forward pass moves into an `nn.step`. A training step runs it once for
    each micro-batch. Before the first one the labels of the whole step are
    counted. The losses of all micro-batches are summed in the state `loss`, each
    with the weight of its label, divided by that count. The step returns the
    loss and `loss_weight`, the count.

    ```mlir
    nn.func @forward(%ids: tensor<4x64xi32>, %labels: tensor<4x64xi32>)
        -> tensor<4x64xf32> attributes {program = #nn.program<train>, ...}
    // becomes
    nn.step @train(%ids: tensor<2x4x64xi32>, %labels: tensor<2x4x64xi32>)
        -> (tensor<f32>, tensor<f32>)
        attributes {kind = #nn.program<train>, ...} {
      %count = nn.count_labels %labels : ...
      nn.micro_batches 2 { ^bb0(%i: index): ... }
    ```
  }];
  let dependentDialects = ["::heddle::nn::NNDialect"];
}

def TrainFreezeParameters : Pass<"train-freeze-parameters", "::heddle::nn::ModelOp"> {
  let summary = "Trains nothing that a group of the strategy freezes.";
  let description = [{
    A parameter is of the first group (`--group`) whose pattern is found in its
    name, in the model or in the weight files. One of a frozen group is not
    trainable any more: it gets no gradient, and the optimizer keeps nothing of
    it. A group that cannot be read, or matches no parameter, is an error.

    ```mlir
    nn.state @wte.weight role parameter : tensor<97x32xf32> {trainable, ...}
    // becomes, with --group 'wte:frozen'
    nn.state @wte.weight role parameter : tensor<97x32xf32> {...}
    ```
  }];
}

def TrainRecompute : Pass<"train-recompute", "::heddle::nn::ModelOp"> {
  let summary = "Writes the strategy's recomputation policy at every call.";
  let description = [{
    Calls that already carry a policy keep it. `none` saves every value that a
    gradient reads; `selective` saves the results of products and attention and
    computes norms, activations and dropout again; `full` saves only the layer's
    inputs.
  }];
}

def TrainDifferentiate : Pass<"train-differentiate", "::heddle::nn::ModelOp"> {
  let summary = "Reverse-mode differentiation of the training step.";
  let description = [{
    Every layer function that is called gets a forward function, which also
    returns what it saves, and a backward function, which takes it. Gradients of
    parameters are states; the operations that compute them add to what is there.
    Differentiation follows activity: what no trainable parameter reaches has no
    gradient.

    ```mlir
    %y = nn.call @block(%x, %w) path "h.0" : ...
    // becomes, in the training step
    %y, %saved = nn.call @block.fwd(%x, %w) path "h.0" : ...
    ...
    %dx, %dw = nn.call @block.bwd(%x, %w, %saved, %dy) path "h.0" : ...
    nn.set @h.0.attn.c_attn.weight.grad, %dw : ...
    ```
  }];
  let dependentDialects = ["::heddle::nn::NNDialect",
                           "::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numSaved", "saved values", "Values that forward functions save">
  ];
}

def TrainOptimizer : Pass<"train-optimizer", "::heddle::nn::ModelOp"> {
  let summary = "Clips the gradients and updates the parameters.";
  let description = [{
    Parameters that are updated alike stand in one bucket: with weight decay,
    without, and those of each group of the strategy. So do their gradients, what
    the optimizer keeps of them, and their copies. One `nn.update` a bucket
    updates them, by the optimizer's rule (lib/Transforms/Train/Optimizers).
    The step also returns `grad_norm`, the norm before clipping.

    Nothing is updated where no label counts, and where the loss or the norm is not
    finite. Such a step also makes the state `nonfinite` 1, and while it is 1 no step
    updates anything: the host may have submitted the next one already. It makes it 0
    again once it knows.
  }];
  let dependentDialects = ["::heddle::nn::NNDialect"];
}

def TrainVerify : Pass<"train-verify", "::heddle::nn::ModelOp"> {
  let summary = "Checks what the train phase promises.";
  let description = [{
    Every program is an `nn.step`; in the training step every trainable
    parameter has a gradient that is written before it is read, and is updated
    once.
  }];
}

#endif // HEDDLE_TRANSFORMS_TRAIN_PASSES
