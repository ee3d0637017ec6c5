//===- Passes.td - Passes of lib/Transforms/Spmd -----------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_SPMD_PASSES
#define HEDDLE_TRANSFORMS_SPMD_PASSES

include "mlir/Pass/PassBase.td"

def SpmdPartitionActivations : Pass<"spmd-partition-activations", "::mlir::ModuleOp"> {
  let summary = "Parts among tensor ranks what they hold alike for the backward pass.";
  let description = [{
    With the strategy's `partition_activations` a value of the forward pass that is
    used again three layers later or more, and that all ranks along `tensor` hold, is
    cut into a part for each of them behind its last use of then. It is gathered while
    the layer runs before the one that uses it again. In pipelines, slots for the
    backward pass hold parts in the same way. What has less than a page stays whole,
    and so does what is sent.

    ```mlir
    %1 = nn.call @block.fwd(%0, ...) path "h.0" : ...
    ...
    %9 = nn.call @block.bwd(%0, ...) path "h.0" : ...
    // becomes
    %1 = nn.call @block.fwd(%0, ...) path "h.0" : ...
    %f = nn.pack %0 : (tensor<2x64x256xf32>) -> tensor<32768xf32>
    %s = dist.reshard %f from #dist.sharding<[[]], unreduced []>
           to #dist.sharding<[["tensor"]], unreduced []> for "activations" : ...
    %p = nn.pack %s : (tensor<32768xf32>) -> tensor<32768xf32>
    ...
    %g = dist.reshard %p from #dist.sharding<[["tensor"]], unreduced []>
           to #dist.sharding<[[]], unreduced []> for "activations" : ...
    %8 = nn.call @block.bwd(...) path "h.1" : ...
    %u = nn.unpack %g : (tensor<32768xf32>) -> tensor<2x64x256xf32>
    %9 = nn.call @block.bwd(%u, ...) path "h.0" : ...
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::heddle::nn::NNDialect"];
  let statistics = [
    Statistic<"numParted", "parted", "Values of which ranks keep parts">
  ];
}

def SpmdLocalize : Pass<"spmd-localize", "::mlir::ModuleOp"> {
  let summary = "Goes from the shapes of the whole to those of one rank.";
  let description = [{
    Every value gets the type of a rank's part, ceil(whole / parts) along each
    dimension, and every `dist.reshard` becomes the cheapest collectives. What
    depends on the part (random numbers, positions, rows of a vocabulary) gets the
    rank's number as an operand: all ranks of a stage run one program.

    ```mlir
    %1 = dist.reshard %0 from #dist.sharding<[[]], unreduced ["data"]>
           to #dist.sharding<[["data"]], unreduced []> for "h.0" : tensor<128xf32>
    // becomes
    %1 = dist.reduce_scatter %0 axes ["data"] dim 0 for "h.0"
           : tensor<128xf32> -> tensor<64xf32>
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::mlir::arith::ArithDialect"];
}

def SpmdChunkTokens : Pass<"spmd-chunk-tokens", "::mlir::ModuleOp"> {
  let summary = "Computes the vocabulary head and the MLPs of a few tokens at a time.";
  let description = [{
    What stands between matrix products and computes each token by itself is done
    for a chunk of tokens, then for the next one, where the strategy's
    `chunk_tokens` is less than a rank's tokens of a micro-batch. A chunk is made
    of some whole rows, some positions of all rows, or of one row. What only the
    operations of a chunk read is never there as a whole: neither the logits nor
    their gradient, which is computed right behind them. Sums over tokens, which
    are gradients of weights, go on from chunk to chunk in f32. Nothing changes
    for a value that is kept or saved.

    ```mlir
    %y = nn.linear %x, %w : (tensor<1x4x8xf32>, tensor<8x99xf32>) -> tensor<1x4x99xf32>
    %losses, %lse = nn.cross_entropy %y, %labels : ...
    // becomes, with chunk_tokens = 2
    %x0 = nn.slice %x dim 1 first %c0 : (tensor<1x4x8xf32>, index) -> tensor<1x2x8xf32>
    %y0 = nn.linear %x0, %w : (tensor<1x2x8xf32>, tensor<8x99xf32>) -> tensor<1x2x99xf32>
    %labels0 = nn.slice %labels dim 1 first %c0 : ...
    %losses0, %lse0 = nn.cross_entropy %y0, %labels0 : ...
    %x1 = nn.slice %x dim 1 first %c2 : ...
    ...
    %losses = nn.concat %losses0, %losses1 dim 1 : ...
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::heddle::nn::NNDialect",
                           "::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numChunks", "chunks", "Chunks of tokens in all blocks">
  ];
}

def SpmdTileProducts : Pass<"spmd-tile-products", "::mlir::ModuleOp"> {
  let summary = "Computes products with a few rows of their weight at a time.";
  let description = [{
    Of the weights that the strategy's `tile` names, those that are gathered or
    fetched for a layer: each product of such a weight is computed tile by tile.
    A tile is some rows of the weight as it is stored, and of every rank's part
    where ranks gather it. It is brought while the call before it runs, so that
    two tiles are there at most. Rows that are features of the result make
    results that stand side by side; of rows that are features of the input the
    sums of a tile, in f32, begin with those of the one before. The gradient of
    a weight that ranks share out is computed, and scattered, by the same tiles.
    What stands between such products in the layer becomes functions of their
    own, which all instances of the layer share. An embedding adds up the rows
    that each tile has, unless it fetches rows alone (`spmd-fetch-parameters`).

    ```mlir
    %w = nn.get @h.0.w : tensor<64x32xf32>
    %y = nn.call @block(%x, %w) path "h.0" : ...
    // becomes, with tile = ["h.*.w=2"]
    %f0 = dist.fetch @parameters.decay[0] {pending} : tensor<1024xf32>
    %0 = nn.call @block.0(%x) path "h.0" : ...
    %w0 = dist.wait %f0 : tensor<1024xf32>
    %t0 = nn.unpack %w0 : (tensor<1024xf32>) -> tensor<32x32xf32>
    %f1 = dist.fetch @parameters.decay[1024] {pending} : tensor<1024xf32>
    %1 = nn.call @block.tile(%0, %t0) path "h.0.1" : ...
    ...
    %3 = nn.concat %1, %2 dim 2 : ...
    %y = nn.call @block.2(%3) path "h.0.3" : ...
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::heddle::nn::NNDialect",
                           "::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numTiled", "tiled", "Weights of layers that come in tiles">
  ];
}

def SpmdOverlap : Pass<"spmd-overlap", "::mlir::ModuleOp"> {
  let summary = "Starts communication early and waits for it late.";
  let description = [{
    The parameters of a layer, where they are gathered, are gathered while the
    layer before it runs; the gradients of a layer, where they are scattered,
    travel while the next layer runs. So the parameters of two layers are there
    at once, and the gradients of two, and never more. What is larger than the
    strategy's `prefetch_bucket_size`, or makes more than `max_live_parameters`
    elements gathered at once, is gathered when the layer needs it. Activations of
    which ranks keep parts are gathered where `spmd-partition-activations` says, and
    waited for where they are read.

    ```mlir
    %0 = dist.all_gather %p axes ["data"] dim 0 for "h.1" {pending} : ...
    %1:2 = nn.call @block.fwd(...) path "h.0" : ...
    %2 = dist.wait %0 : ...
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect"];
  let statistics = [
    Statistic<"numPrefetched", "prefetched", "Gathers that start a layer earlier">,
    Statistic<"numDeferred", "deferred", "Sums that are waited for a layer later">
  ];
}

def SpmdAdvanceUpdates : Pass<"spmd-advance-updates", "::mlir::ModuleOp"> {
  let summary = "Moves updates of states that live elsewhere up to behind their gradients.";
  let description = [{
    An update whose states are not in the device's memory moves into the micro-batch,
    behind the last operation that writes its gradients or reads its parameters: so
    states are fetched and stored beside the rest of the backward pass. One update of
    many parameters becomes one for each run of them, of about a 64th of all
    elements, up to 2^24 or a 128th, and at most `sub_group_size`.

    Of several micro-batches the last one gets a loop of its own for that; of a pipeline
    stage the last fragment of its line gets a line of its own. What depends
    on all gradients stays behind the loop: updates that wait for the norm, as all do but
    delayed ones (`delayed_update`), LAMB's, and those of
    gradients that replicas or stages sum there (ZeRO 0 and 1; tied embeddings), or
    that are not in the device's memory. So do updates of a step in which values are
    kept for `--dump`.

    ```mlir
    nn.micro_batches 1 {
      ...
      nn.set @h.1.w.grad, %0 : tensor<1024x1024xf32>
      %1:2 = nn.call @block.bwd(...) path "h.0" : ...
      nn.set @h.0.w.grad, %1#1 : tensor<1024x1024xf32>
    }
    %p = nn.get @parameters.decay : tensor<2097152xf32>
    ...
    // becomes
    nn.micro_batches 1 {
      ...
      nn.set @h.1.w.grad, %0 : tensor<1024x1024xf32>
      %p1 = nn.get @parameters.decay.1 : tensor<1048576xf32>
      ...
      nn.set @parameters.decay.1, %u1#0 : tensor<1048576xf32>
      %1:2 = nn.call @block.bwd(...) path "h.0" : ...
      nn.set @h.0.w.grad, %1#1 : tensor<1024x1024xf32>
      %p0 = nn.get @parameters.decay.0 : tensor<1048576xf32>
      ...
    }
    ```
  }];
  let dependentDialects = ["::heddle::nn::NNDialect",
                           "::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numMoved", "moved", "Updates beside the backward pass">
  ];
}

def SpmdFetchParameters : Pass<"spmd-fetch-parameters", "::mlir::ModuleOp"> {
  let summary = "Brings parameters that live elsewhere where they are used.";
  let description = [{
    Before each layer, and before what stands outside of layers, the parameters
    that it reads and that are not in the device's memory are fetched: those
    that stand close together in a flat state at once, from a page's beginning on.
    They are there while the layer before is computed, within the strategy's
    `prefetch_bucket_size` and `max_live_parameters`, and are forgotten behind
    it, unless it is read again before the next layer: the last layer's
    parameters are fetched once for both passes. An embedding fetches the rows of
    its tokens (`dist.fetch_rows`), if they are fewer bytes than the table. What
    ranks gather is fetched a layer before that. A flat state that
    ranks gather after its update is stored. Updates by windows are left to
    `spmd-stream-states`.

    ```mlir
    %w = nn.get @h.1.w : tensor<8x16xf32>
    %1 = nn.call @block(%0, %w) path "h.1" : ...
    // becomes
    %f = dist.fetch @parameters.decay[1024] {pending} : tensor<256xf32>
    %0 = nn.call @block(...) path "h.0" : ...
    %g = dist.wait %f : tensor<256xf32>
    %w:2 = nn.unpack %g : (tensor<256xf32>) -> (tensor<128xf32>, tensor<8x16xf32>)
    %1 = nn.call @block(%0, %w#1) path "h.1" : ...
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::heddle::nn::NNDialect"];
  let statistics = [
    Statistic<"numFetched", "fetched", "Runs of parameters that are fetched">
  ];
}

def SpmdHostUpdates : Pass<"spmd-host-updates", "::mlir::ModuleOp"> {
  let summary = "Lets the host compute updates of states that are in its memory.";
  let description = [{
    The first updates of a step, as many as have the part `host_updates` of all
    elements at most, are computed where their states are, window by window: what they
    read of the device's memory, as gradients, is moved to the host, and what the
    device computes with comes back. Both cross in the types that they have. What
    leaves for the host leaves while the window before is updated. At most
    `in-flight` windows are not back when the next one begins; the last ones are
    waited for at the end of the block, and so beside the rest of the backward
    pass. An update that has more elements than are left of the part is cut into
    runs of parameters. Updates of states on file, and those of which other
    operations read what they make, stay on the device.

    ```mlir
    %m = nn.get @exp_avg.decay : tensor<1024xf32>
    %1:3 = nn.update "lion" %p, %g states(%m) with(%lr) : (...) -> (...) { ... }
    nn.set @copies.decay, %1#2 : tensor<1024xbf16>
    // becomes
    %2 = dist.move %lr to_host {pending} : tensor<f32>
    %3 = dist.wait %2 : tensor<f32>
    %4 = dist.move %g to_host {pending} : tensor<1024xbf16>
    %5 = dist.wait %4 : tensor<1024xbf16>
    %1:3 = nn.update "lion" %p, %5 states(%m) with(%3) : (...) -> (...) { ... }
    %6 = dist.move %1#2 to_device {pending} : tensor<1024xbf16>
    ...
    %7 = dist.wait %6 : tensor<1024xbf16>
    nn.set @copies.decay, %7 : tensor<1024xbf16>
    ```
  }];
  let options = [
    Option<"inFlight", "in-flight", "int64_t", "8",
           "Windows that are not back when the next one begins">
  ];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::heddle::nn::NNDialect"];
  let statistics = [
    Statistic<"numWindows", "windows", "Windows that the host updates in a step">
  ];
}

def SpmdStartGradients : Pass<"spmd-start-gradients", "::mlir::ModuleOp"> {
  let summary = "Adds the first gradients of a step to zeros in the device's memory.";
  let description = [{
    Gradients that are not in the device's memory, and that a step sets to zero
    before its micro-batches add to them, are not zeroed there: the first
    micro-batch gets a loop of its own, in which each layer adds to zeros that
    are made for it. So those of N micro-batches are stored N times and not
    N + 1, and fetched once less. The sums have the same bits. Pipeline stages,
    and steps in which values are kept for `--dump`, stay as they are.

    ```mlir
    nn.set @gradients.decay, %zeros : tensor<8192xf32>
    nn.micro_batches 3 {
    ^bb0(%i: index):
      %g = nn.get @h.0.w.grad : tensor<64x64xf32>
      %1 = nn.call @block.bwd(%0, %g) path "h.0" : ...
    // becomes
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %g = nn.fill 0.000000e+00 : () -> tensor<64x64xf32>
      %1 = nn.call @block.bwd(%0, %g) path "h.0" : ...
    }
    nn.micro_batches 2 {
    ```
  }];
  let dependentDialects = ["::heddle::nn::NNDialect",
                           "::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numStarted", "started", "Gradients that need no zeros elsewhere">
  ];
}

def SpmdStreamGradients : Pass<"spmd-stream-gradients", "::mlir::ModuleOp"> {
  let summary = "Keeps gradients outside of the device's memory until they are needed.";
  let description = [{
    What a layer adds to gradients that are not in the device's memory is fetched
    while the layer before it runs, and stored while the next one does; with one
    micro-batch it is stored alone. Gradients that stand side by side in a flat
    state are moved at once. Of a file whole pages are: a page that gradients of
    two layers share is stored when the second of them is there. What begins with
    zero is filled by windows. The norm becomes one of the sums of squares of
    blocks, as fuse-split-norms makes it: these, and the update, are of windows,
    which `spmd-stream-states` cuts. What ranks sum behind the last micro-batch is
    fetched whole.

    ```mlir
    %g = nn.get @h.0.w.grad : tensor<64x64xf32>
    %1 = nn.call @block.bwd(%0, %g) path "h.0" : ...
    nn.set @h.0.w.grad, %1 : tensor<64x64xf32>
    // becomes
    %f = dist.fetch @gradients.decay[0] {pending} : tensor<4096xf32>
    %0 = nn.call @block.bwd(...) path "h.1" : ...
    %w = dist.wait %f : tensor<4096xf32>
    %g = nn.unpack %w : (tensor<4096xf32>) -> tensor<64x64xf32>
    %1 = nn.call @block.bwd(%0, %g) path "h.0" : ...
    %p = nn.pack %1 : (tensor<64x64xf32>) -> tensor<4096xf32>
    dist.store @gradients.decay[0], %p : tensor<4096xf32>
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::heddle::nn::NNDialect"];
  let statistics = [
    Statistic<"numStored", "stored", "Runs of gradients that are stored">,
    Statistic<"numFetched", "fetched", "Runs of gradients that are fetched">
  ];
}

def SpmdStreamStates : Pass<"spmd-stream-states", "::mlir::ModuleOp"> {
  let summary = "Updates states that live elsewhere through windows in the device's memory.";
  let description = [{
    An update of states that are not in the device's memory becomes one for each
    window of them, as long as all others but the last: about a 64th of all
    elements, up to 2^24 or a 128th, at most `sub_group_size`, rounded up to 1024. A window is fetched while
    those before it are updated, and stored while the next one is. So at most
    `ahead` windows and one more are there for each state. Beside the backward pass
    those of a layer are fetched while the layer before runs, and stored while the one
    behind does. Sums of squares of gradients that are not in the device's memory are
    made by windows too, of whole blocks.

    ```mlir
    %m = nn.get @exp_avg.decay : tensor<2048xf32>
    %1:2 = nn.update "lion" %p, %g states(%m) with(%lr) : (...) -> (...) { ... }
    nn.set @exp_avg.decay, %1#1 : tensor<2048xf32>
    // becomes
    %m0 = dist.fetch @exp_avg.decay[0] {pending} : tensor<1024xf32>
    %m1 = dist.fetch @exp_avg.decay[1024] {pending} : tensor<1024xf32>
    %p01:2 = nn.unpack %p : (tensor<2048xf32>) -> (tensor<1024xf32>, tensor<1024xf32>)
    %g01:2 = nn.unpack %g : (tensor<2048xf32>) -> (tensor<1024xf32>, tensor<1024xf32>)
    %2 = dist.wait %m0 : tensor<1024xf32>
    %3:2 = nn.update "lion" %p01#0, %g01#0 states(%2) with(%lr) : (...) -> (...) { ... }
    dist.store @exp_avg.decay[0], %3#1 : tensor<1024xf32>
    ...
    dist.flush 0
    %5 = nn.pack %3#0, %4#0 : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<2048xf32>
    ```
  }];
  let options = [
    Option<"ahead", "ahead", "int64_t", "2",
           "Windows that are fetched before the one that is updated is">
  ];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::heddle::nn::NNDialect"];
  let statistics = [
    Statistic<"numWindows", "windows", "Windows that are updated in a step">
  ];
}

def SpmdStreamActivations : Pass<"spmd-stream-activations", "::mlir::ModuleOp"> {
  let summary = "Keeps activations outside of the device's memory until the backward pass.";
  let description = [{
    Values of the forward pass that are used again three layers later or more are
    stored in the memory that the strategy's `activations` names. A store begins
    behind the value's last use of then, and is done when one more layer has run.
    The value is fetched while the layer runs before the one that uses it again:
    those of two layers that come are there, and of two that go. In pipelines, what stages keep in slots
    for the backward pass goes the same way. Weights stay, and so does what has
    less than a page, or is sent.

    ```mlir
    %1 = nn.call @block.fwd(%0, ...) path "h.0" : ...
    ...
    %9 = nn.call @block.bwd(%0, ...) path "h.0" : ...
    // becomes
    %1 = nn.call @block.fwd(%0, ...) path "h.0" : ...
    dist.store @saved[0] slot %c0, %0 : tensor<2x64x256xf32>
    %2 = nn.call @block.fwd(%1, ...) path "h.1" : ...
    dist.flush 0
    ...
    %7 = dist.fetch @saved[0] slot %c0 {pending} : tensor<2x64x256xf32>
    %8 = nn.call @block.bwd(...) path "h.1" : ...
    %10 = dist.wait %7 : tensor<2x64x256xf32>
    %9 = nn.call @block.bwd(%10, ...) path "h.0" : ...
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::heddle::nn::NNDialect",
                           "::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numStored", "stored", "Values that are stored in a step">,
    Statistic<"numFetched", "fetched", "Values that are fetched in a step">
  ];
}

def SpmdVerify : Pass<"spmd-verify", "::mlir::ModuleOp"> {
  let summary = "Checks what the spmd phase promises.";
  let description = [{
    No sharding and no reshard is left. Collectives, states and ports have the
    sizes of a rank's parts. States are read and written as the train phase
    promises: a gradient, for one, is cleared before it is added to.
  }];
}

#endif // HEDDLE_TRANSFORMS_SPMD_PASSES
