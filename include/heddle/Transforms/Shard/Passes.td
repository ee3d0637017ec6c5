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
  let summary = "Makes the mesh of the strategy.";
  let description = [{
    The passes that follow read axes, and what each shares out, from it. Where
    the strategy says so, attention is to pass keys and values around the ranks
    of the axes that share out tokens.

    ```mlir
    dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, ...]
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect"];
}

def ShardNarrowGradients : Pass<"shard-narrow-gradients", "::heddle::nn::ModelOp"> {
  let summary = "Keeps gradients in the type in which they travel.";
  let description = [{
    Where replicas add up gradients in bf16, a step of one micro-batch has nothing
    to add to them before: they are made in bf16 and kept so. The optimizer reads
    what it would have read, as no rank has a more precise sum in the end. Where
    a gradient is the sum of more than two values, or stages send to each other,
    all stay f32.

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
  let summary = "Adds to the gradients of the micro-batches before apart.";
  let description = [{
    From `zero` 2 on a rank keeps its part of the gradients, and adds to that part
    what it has got of the others. So the products of a micro-batch add to
    nothing, and the sum over micro-batches is an operation of its own, behind
    which `shard-partition-states` puts the exchange.

    ```mlir
    %sum = nn.linear_grad_weight %x, %dy : (...) -> tensor<768x3072xf32>
    %before = nn.get @h.0.mlp.c_fc.weight.grad : tensor<768x3072xf32>
    %after = nn.add %before, %sum : tensor<768x3072xf32>
    nn.set @h.0.mlp.c_fc.weight.grad, %after : tensor<768x3072xf32>
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect"];
  let statistics = [
    Statistic<"numSeparated", "separated", "Gradients that are added to apart">
  ];
}

def ShardSplitParameters : Pass<"shard-split-parameters", "::heddle::nn::ModelOp"> {
  let summary = "Splits products and the vocabulary over the axis `tensor`.";
  let description = [{
    Two products with only element-wise operations or attention between them are
    a pair: the first is split by columns, the second by rows, and one sum stands
    behind the pair (Shoeybi et al., arXiv 1909.08053). Token embeddings and the
    head are split by rows of the vocabulary. The split is the parameters'
    `storage`; what happens to values follows from there. The bias of a product
    that is split by rows becomes an operation of its own, behind the sum.

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
  let summary = "Says which rank holds which part of every state.";
  let description = [{
    ZeRO (Rajbhandari et al., arXiv 1910.02054) as storage. Parameters and what
    belongs to them become buckets that are split over the axes along
    which ranks hold replicas (`data`, `seq`): from `zero` 1 on the optimizer's
    states, from 2 on the gradients, at 3 the parameters. Gradients stay partial
    sums of the replicas until they are reduced: with `zero` 0 and 1 once, after
    the micro-batches, from 2 on as soon as a bucket's are there.

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
  let summary = "Says in which memory states live.";
  let description = [{
    With `place_optimizer` the moments of every parameter live in memory of that
    kind; so do the parameters themselves where computation reads copies of them
    in another precision, and the update reads them element by element. With
    `place_parameters` what computation reads does: these copies, or the
    parameters. Frozen ones stay, and with ZeRO 3 those that every rank keeps. With
    `place_gradients` all gradients do.

    ```mlir
    nn.state @wte.weight.exp_avg role optimizer : tensor<96x24xf32>
      {memory = #nn<memory file>, ...}
    ```
  }];
  let dependentDialects = ["::heddle::nn::NNDialect"];
  let statistics = [
    Statistic<"numPlaced", "placed", "States outside of the device's memory">
  ];
}

def ShardDeferGradientReduction : Pass<"shard-defer-gradient-reduction", "::heddle::nn::ModelOp"> {
  let summary = "Adds gradients of tensor ranks up once a step.";
  let description = [{
    Where ranks along `tensor` share the tokens out, each makes a part of the
    gradients of parameters that all of them have: of norms, biases, positions.
    With `zero` 0 and 1 these gradients stay partial sums over `tensor`, as over
    the replicas, until the micro-batches are done. Which they are is what the
    sharding plan says; a bucket is deferred when all its members are.

    ```mlir
    nn.bucket @gradients.decay [...] {storage = #dist.sharding<[[]], unreduced ["data", "tensor"]>}
    ```
  }];
  let options = [
    Option<"printReasons", "print-reasons", "bool", "false",
           "Print which gradients are added up later">
  ];
  let dependentDialects = ["::heddle::dist::DistDialect"];
  let statistics = [
    Statistic<"numDeferred", "deferred", "Buckets that are added up later">
  ];
}

def ShardPropagate : Pass<"shard-propagate", "::heddle::nn::ModelOp"> {
  let summary = "Plans one closed sharding for every value.";
  let description = [{
    Changes nothing: it makes the sharding plan, an analysis that other passes
    ask (`ShardingPlan.h`). The rows of a step's inputs are split over the axes of
    the mesh that share out rows; from there shardings follow each operation's
    rule: results take the axes of their factors, and are partial sums over the
    axes of factors that are summed. A sum of partial sums over the same axes is
    one too. What goes into a layer or comes out of it is whole, but for the
    gradients of parameters. An axis of size 1 splits nothing and is named by no
    sharding.

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
    Every computation says how its results are sharded. Where an operand comes
    otherwise than the plan needs it, a `dist.reshard` is put in, with the
    operation that asked for it; what a rank can make by itself is made so in its
    place. What a partial sum cannot be added to is added behind it.

    ```mlir
    %y = nn.linear %x, %w {shardings = [#dist.sharding<[[], [], []], unreduced ["tensor"]>]}
    %s = dist.reshard %y from #dist.sharding<[[], [], []], unreduced ["tensor"]>
           to #dist.sharding<[[], [], []], unreduced []> for "nn.add"
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect"];
  let statistics = [
    Statistic<"numReshards", "reshards", "Reshards that were put in">
  ];
}

def ShardSaveResharded : Pass<"shard-save-resharded", "::heddle::nn::ModelOp"> {
  let summary = "Saves for the backward pass what was exchanged, as it is then.";
  let description = [{
    Where ranks split a sequence, attention's operands are exchanged for heads of
    all tokens. A backward function that would exchange what the forward one
    returned in the same way is handed what that has already: nothing travels
    twice. Where the value is needed as it was too, both are saved. Only reshards
    that move axes between dimensions go: what is gathered is larger, and is
    gathered again.

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
           "Print which arguments come as they were exchanged">
  ];
  let dependentDialects = ["::heddle::dist::DistDialect"];
  let statistics = [
    Statistic<"numSaved", "saved", "Reshards that went">
  ];
}

def ShardVerify : Pass<"shard-verify", "::heddle::nn::ModelOp"> {
  let summary = "Checks what the shard phase promises.";
  let description = [{
    Every computation carries a sharding for each tensor result, with one list of
    axes per dimension and only axes of the mesh; what is written to a state or
    returned from a step is no partial sum.
  }];
}

#endif // HEDDLE_TRANSFORMS_SHARD_PASSES
