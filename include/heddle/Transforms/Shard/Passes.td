//===- Passes.td - Passes of lib/Transforms/Shard ----------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_SHARD_PASSES
#define HEDDLE_TRANSFORMS_SHARD_PASSES

include "mlir/Pass/PassBase.td"

def ShardMakeMesh : Pass<"shard-make-mesh", "::heddle::nn::ModelOp"> {
  let summary = "Adds the strategy's mesh of ranks to the model.";
  let description = [{
    Later passes read the axes and their roles from the mesh. If the strategy asks
    for ring attention, the pass also marks all attention operations: the ranks that
    split a sequence will pass keys and values around.

    ```mlir
    dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, ...]
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect"];
}

def ShardNarrowGradients : Pass<"shard-narrow-gradients", "::heddle::nn::ModelOp"> {
  let summary = "Stores gradients in 16 bits where replicas reduce them in 16 bits.";
  let description = [{
    Gradients that are sent in bf16, or in the fp16 in which the model computes,
    need not be stored in f32 if a step has one micro-batch: nothing is added to
    them before the reduction, which rounds them.
    All gradients stay f32 if one of them is the sum of more than two values, which
    would be rounded after each addition, or if the mesh has pipeline stages.

    ```mlir
    nn.state @ln_f.weight.grad role gradient : tensor<768xbf16> {parameter = "ln_f.weight"}
    %g = nn.linear_grad_weight %x, %dy : (...) -> tensor<768x3072xbf16>
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect"];
  let statistics = [
    Statistic<"numModels", "models", "Models whose gradients became narrower">
  ];
}

def ShardSeparateSums : Pass<"shard-separate-sums", "::heddle::nn::ModelOp"> {
  let summary = "Makes the sum of gradients over micro-batches an operation of its own.";
  let description = [{
    From ZeRO 2 on a rank stores only its shard of the gradients. A product of the
    backward pass cannot add to a shard, so the gradient of a micro-batch is
    computed by itself, and an nn.add adds it to those of earlier micro-batches.
    `shard-partition-states` then inserts the reduce-scatter before that addition.

    ```mlir
    %sum = nn.linear_grad_weight %x, %dy : (...) -> tensor<768x3072xf32>
    %before = nn.get @h.0.mlp.c_fc.weight.grad : tensor<768x3072xf32>
    %after = nn.add %before, %sum : tensor<768x3072xf32>
    nn.set @h.0.mlp.c_fc.weight.grad, %after : tensor<768x3072xf32>
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect"];
  let statistics = [
    Statistic<"numSeparated", "separated", "Gradients with a separate sum">
  ];
}

def ShardSplitParameters : Pass<"shard-split-parameters", "::heddle::nn::ModelOp"> {
  let summary = "Splits products and the vocabulary over the axis `tensor`.";
  let description = [{
    Implements tensor parallelism (Shoeybi et al., arXiv 1909.08053). Two products
    with only element-wise operations or attention between them form a pair: the
    first is split by columns, the second by rows, and one all-reduce follows the
    pair. Token embeddings and the head are split by rows of the vocabulary. The
    pass only sets the `storage` of parameters; `shard-propagate` derives the
    shardings of values. The bias of a product that is split by rows becomes an
    nn.add_bias after the all-reduce.

    ```mlir
    nn.state @h.0.mlp.c_fc.weight role parameter : tensor<64x256xf32>
      {storage = #dist.sharding<[[], ["tensor"]], unreduced []>, trainable}
    ```
  }];
  let options = [
    Option<"printReasons", "print-reasons", "bool", "false",
           "Print how each parameter is split, and why">
  ];
  let dependentDialects = ["::heddle::dist::DistDialect"];
  let statistics = [
    Statistic<"numSplit", "split", "States that were split">
  ];
}

def ShardPartitionStates : Pass<"shard-partition-states", "::heddle::nn::ModelOp"> {
  let summary = "Splits states over replicas (ZeRO).";
  let description = [{
    Implements ZeRO (Rajbhandari et al., arXiv 1910.02054) as storage of states.
    Parameters, gradients, copies and optimizer states are laid out in buckets.
    Along the axes with replicas (`data`, `seq`), ZeRO 1 splits the buckets of
    optimizer states, ZeRO 2 also those of gradients, ZeRO 3 also those of
    parameters. With ZeRO 0 and 1 gradients stay partial sums of the replicas, and
    are reduced once, after all micro-batches. From ZeRO 2 on the gradients of a
    bucket are reduce-scattered as soon as they are computed. With ZeRO 3 the
    parameters of a bucket are all-gathered before each layer that reads them.

    ```mlir
    %g = nn.get @gradients.decay : tensor<512xf32>
    %s = dist.reshard %g from #dist.sharding<[[]], unreduced ["data"]>
           to #dist.sharding<[["data"]], unreduced []> for "nn.update" : tensor<512xf32>
    ```
  }];
  let options = [
    Option<"printReasons", "print-reasons", "bool", "false",
           "Print how each other state and each bucket is split, and why">
  ];
  let dependentDialects = ["::heddle::dist::DistDialect"];
  let statistics = [
    Statistic<"numBuckets", "buckets", "Buckets that parameters were laid out in">
  ];
}

def ShardPlaceStates : Pass<"shard-place-states", "::heddle::nn::ModelOp"> {
  let summary = "Offloads states to host memory or files.";
  let description = [{
    Sets the memory kind of states by three settings of the strategy:

    - `place_optimizer`: the moments, and the master weights, which are parameters
      of which layers read copies in another precision. Master weights stay on the
      device if the update does not read them element by element.
    - `place_gradients`: all gradients.
    - `place_parameters`: what layers read, which are the copies or the parameters.
      Frozen parameters stay on the device, as do those that every rank keeps whole
      with ZeRO 3.

    ```mlir
    nn.state @wte.weight.exp_avg role optimizer : tensor<96x24xf32>
      {memory = #nn<memory file>, ...}
    ```
  }];
  let dependentDialects = ["::heddle::nn::NNDialect"];
  let statistics = [
    Statistic<"numPlaced", "placed", "States that were offloaded">
  ];
}

def ShardDeferGradientReduction : Pass<"shard-defer-gradient-reduction", "::heddle::nn::ModelOp"> {
  let summary = "Reduces gradients over tensor ranks once a step.";
  let description = [{
    With sequence parallelism the ranks along `tensor` split the tokens, so each
    has a partial sum of the gradients of parameters that all of them hold: norms,
    biases, positions. With ZeRO 0 and 1 this pass lets these gradients stay partial
    sums over `tensor`, as over the replicas, until all micro-batches are done,
    instead of reducing them in each micro-batch. The sharding plan says which
    gradients are such sums; a bucket is deferred if all its members are.

    ```mlir
    nn.bucket @gradients.decay [...] {storage = #dist.sharding<[[]], unreduced ["data", "tensor"]>}
    ```
  }];
  let options = [
    Option<"printReasons", "print-reasons", "bool", "false",
           "Print which gradients are reduced once a step">
  ];
  let dependentDialects = ["::heddle::dist::DistDialect"];
  let statistics = [
    Statistic<"numDeferred", "deferred", "Buckets that are reduced once a step">
  ];
}

def ShardPropagate : Pass<"shard-propagate", "::heddle::nn::ModelOp"> {
  let summary = "Plans one closed sharding for every value.";
  let description = [{
    Changes nothing: the pass computes the sharding plan, an analysis that later
    passes read (`ShardingPlan.h`), and prints it with `print-reasons`. Propagation
    begins with the inputs of a step, whose rows are split over `data` and whose
    tokens over `seq`, and with the storage of states. It follows the sharding rule
    of each operation: results take the axes of their factors, and are partial sums
    over the axes of factors that are summed. Sums of partial sums over the same
    axes stay partial sums. At the boundary of a layer activations are reduced;
    gradients of parameters are not. An axis of size 1 appears in no sharding.

    ```
    block.fwd h.*.mlp.c_fc (nn.linear): tensor on dim 2: tensor with h.*.mlp.c_fc.weight, along o
    ```
  }];
  let options = [
    Option<"printReasons", "print-reasons", "bool", "false",
           "Print the sharding of each value, and what decided it">
  ];
}

def ShardInsertReshards : Pass<"shard-insert-reshards", "::heddle::nn::ModelOp"> {
  let summary = "Writes the sharding plan, and a reshard where it needs one.";
  let description = [{
    Every computation gets the shardings of its results. Where an operand has
    another sharding than the plan asks for, a `dist.reshard` is inserted, with the
    name of the operation that needs it. A value that every rank can compute by
    itself, as a constant, is computed in the new sharding instead. An init that
    cannot be added to a partial sum is added after the reduction.

    ```mlir
    %y = nn.linear %x, %w {shardings = [#dist.sharding<[[], [], []], unreduced ["tensor"]>]}
    %s = dist.reshard %y from #dist.sharding<[[], [], []], unreduced ["tensor"]>
           to #dist.sharding<[[], [], []], unreduced []> for "nn.add"
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect"];
  let statistics = [
    Statistic<"numReshards", "reshards", "Reshards that were inserted">
  ];
}

def ShardSaveResharded : Pass<"shard-save-resharded", "::heddle::nn::ModelOp"> {
  let summary = "Saves activations in the sharding that the backward pass needs.";
  let description = [{
    With Ulysses, the operands of attention are exchanged (all-to-all) from tokens
    to heads. The backward function would exchange the saved operand again. This
    pass saves the exchanged value instead, so that it is sent once. If the
    backward function also needs the value as it was, both are saved. Only reshards
    that move axes between dimensions are removed: an all-gathered value is larger
    than its shard, so it is gathered again rather than saved.

    ```mlir
    nn.func @block.fwd(...) {
      %h = dist.reshard %qkv from <[[], ["seq"], []], unreduced []>
             to <[[], [], ["seq"]], unreduced []> for "nn.attention"
      nn.return %y, %h // was: %y, %qkv
    }
    ```
  }];
  let options = [
    Option<"printReasons", "print-reasons", "bool", "false",
           "Print which arguments are saved after their exchange">
  ];
  let dependentDialects = ["::heddle::dist::DistDialect"];
  let statistics = [
    Statistic<"numSaved", "saved", "Reshards that were removed">
  ];
}

def ShardVerify : Pass<"shard-verify", "::heddle::nn::ModelOp"> {
  let summary = "Checks what the shard phase promises.";
  let description = [{
    Every computation has a sharding for each tensor result, with one list of axes
    per dimension and only axes of the mesh. Partial sums are reduced before any
    operation that expects a whole value. Buckets of states are read and written as
    their storage says.
  }];
}

#endif // HEDDLE_TRANSFORMS_SHARD_PASSES
