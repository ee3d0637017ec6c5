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
  let summary = "Makes programs of each layer, for the calibration of quantized weights.";
  let description = [{
    Replaces all programs except `eval`, from which the new ones are made:

    - `layer.N` computes the N-th call of a layer from the hidden states that the
      call before it returned; the first one from the batch.
    - `inputs.N.0` returns the second moments of the inputs x of the layer's
      products with a parameter: the sums over tokens of x[i] x[j], under the
      parameter's name.

    A caller that keeps the hidden states runs the model layer by layer, and may
    change a layer's parameters before the next layer. With `sequential` the
    products that read the same value have a program to themselves: `inputs.N.0`,
    `inputs.N.1` and so on, in the order of computation, so that the parameters of
    one can change before the next runs. A model with a layer that reads more than
    the hidden states of the layer before it is refused (H0153).

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
           "Make one program for all products that read the same value">];
  let dependentDialects = ["::heddle::nn::NNDialect"];
}

def TrainBuildSteps : Pass<"train-build-steps", "::heddle::nn::ModelOp"> {
  let summary = "Makes a step program from every function marked as a program.";
  let description = [{
    The forward pass moves into an `nn.step`. A training step runs it once for
    each micro-batch. Before the first micro-batch, the step counts the labels of
    all of them. Each loss is weighted by its label's weight divided by that count,
    and added to the state `loss`. The step returns the loss and `loss_weight`, the
    count.

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
  let summary = "Freezes the parameters of frozen parameter groups.";
  let description = [{
    A parameter belongs to the first group (`--group`) whose pattern matches its
    name, in the model or in the weight files. A parameter of a frozen group becomes
    not trainable: it has neither a gradient nor optimizer states. A group that
    cannot be read, or that matches no parameter, is an error.

    ```mlir
    nn.state @wte.weight role parameter : tensor<97x32xf32> {trainable, ...}
    // becomes, with --group 'wte:frozen'
    nn.state @wte.weight role parameter : tensor<97x32xf32> {...}
    ```
  }];
}

def TrainDropLayers : Pass<"train-drop-layers", "::heddle::nn::ModelOp"> {
  let summary = "Lets training steps skip layers (--layer-drop).";
  let description = [{
    Each layer of the training step gets a condition: whether a step keeps the
    layer. A step that drops a layer skips its call, and the layer's input becomes
    its output. A step that keeps a layer with probability p multiplies the layer's
    branches by 1 / p, so that the expected value of a branch does not change. The
    factors are an input of the step, with one value for every 64 elements.

    A layer is a function with an addition of a branch to its input: an operand
    computed by matrix products or attention from the input, and an operand computed
    from the input without them.

    ```mlir
    %y = nn.call @block(%x, %w) path "h.3" : ...
    // becomes
    nn.condition @h.3.kept #nn.layer_drop<"h.3", 2.5e-01>
    %y = nn.call @block.dropped(%x, %w, %scales#3) path "h.3" when @h.3.kept passes [0] : ...
    ```
  }];
  let dependentDialects = ["::heddle::nn::NNDialect",
                           "::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numDropped", "layers that may be dropped", "Layers with a condition">
  ];
}

def TrainRecompute : Pass<"train-recompute", "::heddle::nn::ModelOp"> {
  let summary = "Writes the strategy's recomputation policy at every call.";
  let description = [{
    Calls that already have a policy keep it. `none` saves every value that a
    gradient reads. `selective` saves the results of products and attention, and
    recomputes norms, activations and dropout. `full` saves only the layer's inputs.
  }];
}

def TrainDifferentiate : Pass<"train-differentiate", "::heddle::nn::ModelOp"> {
  let summary = "Reverse-mode differentiation of the training step.";
  let description = [{
    Each layer function that the step calls gets a forward function, which also
    returns saved activations, and a backward function, which takes them. Gradients
    of parameters are states; with several micro-batches the operations that compute
    them add to the state. Values that depend on no trainable parameter have no
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

def TrainScaleLoss : Pass<"train-scale-loss", "::heddle::nn::ModelOp"> {
  let summary = "Multiplies the loss's gradient by the loss scale (--loss-scale).";
  let description = [{
    In fp16 small gradients would be rounded to 0. With a loss scale, the backward
    pass begins with a gradient of the loss that is multiplied by the scale, and so
    are all gradients after it. The optimizer divides them by the scale.

    The pass adds the states of the loss scale: the scale, the rest of its
    hysteresis, and the number of steps without overflow. `train-optimizer` adds
    the operation that advances them.

    ```mlir
    nn.set @train.scale, %0 : tensor<f32>
    nn.micro_batches 2 {
      %1 = nn.get @train.scale : tensor<f32>
      %w = nn.token_weights %labels scale %1 : ...
      %sum = nn.sum %losses weights %w init %loss : ...
      %dlogits = nn.cross_entropy_grad %logits, %labels, %lse, %w : ...
    // becomes
    nn.state @loss_scale role optimizer : tensor<f32> {init = #nn.init<constant, ...>, ...}
    nn.set @train.scale, %0 : tensor<f32>
    %scale = nn.get @loss_scale : tensor<f32>
    %2 = nn.map (%a = %0, %b = %scale) : ... // %a * %b
    nn.set @train.scale.scaled, %2 : tensor<f32>
    nn.micro_batches 2 {
      %1 = nn.get @train.scale : tensor<f32>
      %w = nn.token_weights %labels scale %1 : ...
      %3 = nn.get @train.scale.scaled : tensor<f32>
      %scaled = nn.token_weights %labels scale %3 : ...
      %sum = nn.sum %losses weights %w init %loss : ...
      %dlogits = nn.cross_entropy_grad %logits, %labels, %lse, %scaled : ...
    ```
  }];
  let dependentDialects = ["::heddle::nn::NNDialect",
                           "::mlir::arith::ArithDialect"];
}

def TrainOptimizer : Pass<"train-optimizer", "::heddle::nn::ModelOp"> {
  let summary = "Clips the gradients and updates the parameters.";
  let description = [{
    Parameters that are updated alike share a bucket: those with weight decay, those
    without, and those of each parameter group of the strategy. Their gradients,
    optimizer states and copies have buckets, too. One `nn.update` for each bucket
    applies the optimizer's rule (lib/Transforms/Train/Optimizers). Learning rates,
    the weight decay and the norm to clip to are inputs of the step. The step counts
    updates in the state `updates`, which says which of the rates it takes. The step
    also returns this rate as `taken_lr`, and `grad_norm`, the norm before clipping.

    A step updates nothing if no label counts, or if the loss or the norm is not
    finite. In the second case it sets the state `nonfinite` to 1, which prevents
    all further updates, because the host may have submitted the next steps already.
    The host resets the state when it has read the loss.

    With a loss scale, a loss or norm that is not finite is an overflow. The step
    updates nothing, and `nn.advance_loss_scale` computes the loss scale of the next
    step. It sets `nonfinite` only if the scale can fall no further. Gradients are
    divided by the loss scale together with clipping. `grad_norm` is the norm of the
    gradients before this division.
  }];
  let dependentDialects = ["::heddle::nn::NNDialect"];
}

def TrainQuantizeWeights : Pass<"train-quantize-weights", "::heddle::nn::ModelOp"> {
  let summary = "Chooses the weights that are quantized while they are trained.";
  let description = [{
    The groups of the strategy's setting `moq` have patterns of modules. The weights
    of linear layers and embeddings that a pattern matches are quantized: the
    attribute `quantizer` of their copy in compute precision says how. With fp32,
    where weights have no copy, the pass adds one, which functions read instead.
    Parameters that are not trained are left out.

    ```mlir
    nn.state @h.0.mlp.c_fc.weight.bf16 role derived : tensor<64x256xbf16>
        {parameter = "h.0.mlp.c_fc.weight"}
    // becomes
    nn.state @h.0.mlp.c_fc.weight.bf16 role derived : tensor<64x256xbf16>
        {parameter = "h.0.mlp.c_fc.weight",
         quantizer = #nn.quantizer<"mlp", groups = 1, outputs_last = true, asymmetric = false>}
    ```
  }];
  let dependentDialects = ["::heddle::nn::NNDialect"];
  let statistics = [
    Statistic<"numWeights", "weights", "Weights that are quantized">
  ];
}

def TrainQuantizeCopies : Pass<"train-quantize-copies", "::heddle::nn::ModelOp"> {
  let summary = "Quantizes copies of weights after the optimizer's updates.";
  let description = [{
    Adds, for each bucket of parameters whose copies have a `quantizer`, the
    extremes of the groups (nn.group_maxima), for fewer than 3 bits their means
    (nn.group_sums), and nn.fake_quantize, which writes the bucket of copies. An
    nn.update of numbers advances the schedule: the count of quantizations, the
    mixing ratio, and the bits and the period of each group of modules. Where a step
    updates nothing, these numbers do not change, and the copies get the values that
    they had.
  }];
  let dependentDialects = ["::heddle::nn::NNDialect"];
  let statistics = [
    Statistic<"numBuckets", "buckets", "Buckets of copies that are quantized">
  ];
}

def TrainVerify : Pass<"train-verify", "::heddle::nn::ModelOp"> {
  let summary = "Checks what the train phase promises.";
  let description = [{
    Every program is an `nn.step`. In the training step every trainable parameter
    has a gradient, which is written before it is read, and is updated once.
  }];
}

#endif // HEDDLE_TRANSFORMS_TRAIN_PASSES
