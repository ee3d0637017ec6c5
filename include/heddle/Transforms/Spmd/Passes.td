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
  let summary = "Splits saved activations that all tensor ranks hold.";
  let description = [{
    Runs where the strategy has `partition_activations` (DeepSpeed's option of that
    name). A saved activation qualifies if all ranks along `tensor` hold it, and its
    next use is three or more layers away. After its last use in the forward pass each
    rank keeps one part of it. An all-gather makes it whole again while the layer
    before the next use runs. In a pipeline, the slots that hold activations for the
    backward pass are split in the same way. Values smaller than a page (4096 bytes)
    and values that are sent to another stage stay whole.

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
    Statistic<"numParted", "parted", "Values that are split among tensor ranks">
  ];
}

def SpmdLocalize : Pass<"spmd-localize", "::heddle::nn::ModelOp"> {
  let summary = "Replaces global shapes by those of one rank.";
  let description = [{
    Every value gets the type of a rank's shard: each dimension is
    ceil(global size / shards) long. Every `dist.reshard` becomes the cheapest
    collectives that make the new sharding. An operation whose result depends on
    which shard it computes (random numbers, positions, rows of a vocabulary) gets
    the rank's index as an operand, so that all ranks of a stage run one program.

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

def SpmdExpandAverages : Pass<"spmd-expand-averages", "::heddle::nn::ModelOp"> {
  let summary = "Replaces averages of replicas by what they send.";
  let description = [{
    Every `nn.average` with the wire format `sign1` becomes signs and scales, their
    all-to-all, and the all-gather of the signs and scales of the means. What a rank
    loses is a state of its own, the error, which it adds to what it sends in the next
    step. With the format `f32`, or without other replicas, a rank has the sum of the
    gradients: the average becomes an `nn.update` of its state, or an `nn.map`.

    ```mlir
    %m1 = nn.average %m, %g if %c wire "sign1" of @parameters.decay : ...
    // becomes
    %e = nn.get @worker_error.decay : tensor<128xf32>
    %x = nn.update "error_feedback" %e, %g with(%m) if %c : ...
    %a = nn.sign_scales %x if %c parts 2 {counts = array<i64: 100>} : ...
    %w, %e1 = nn.pack_signs %x scales %a parts 2 {counts = array<i64: 100>} : ...
    nn.set @worker_error.decay, %e1 : tensor<128xf32>
    %w1 = dist.all_to_all %w axes ["data"] split 1 concat 0 for "nn.average" : ...
    ...
    %m1 = nn.unpack_signs ... else %m if %c parts 2 {counts = array<i64: 100>} : ...
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def SpmdChunkTokens : Pass<"spmd-chunk-tokens", "::heddle::nn::ModelOp"> {
  let summary = "Computes the vocabulary head and the MLPs of a few tokens at a time.";
  let description = [{
    Runs where the strategy's `chunk_tokens` is less than the number of tokens that a
    rank has in a micro-batch. Operations that compute each token by itself, with the
    matrix products around them, are computed for one chunk of tokens after the other.
    A chunk is several whole rows, or several positions of all rows or of one row.
    Values that only operations of a chunk read never exist as a whole: in particular
    the logits and their gradient, which is computed right after them. Sums over
    tokens, which are gradients of weights, are accumulated in f32 from chunk to
    chunk. Values that a dump keeps or that are saved for the backward pass are
    joined again.

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
    Applies to weights that the strategy's `tile` names, if they are all-gathered or
    fetched for their layer. Each product of such a weight is computed row tile by row
    tile, so that at most two tiles are in memory: the next one is gathered or fetched
    while the call before it runs. A row tile is a range of rows of the weight as it
    is stored. Of a weight that ranks all-gather, it is that range of every rank's
    shard.

    If the weight's rows are output features, the tiles' results are concatenated. If
    they are input features, each tile adds to the sum of the tile before, in f32. The
    gradient of a weight that is split over ranks is computed and reduce-scattered by
    the same tiles. The operations between such products become functions, which all
    instances of the layer share. An embedding adds up the rows that each tile has,
    unless it fetches single rows (`spmd-fetch-parameters`).

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
    Statistic<"numTiled", "tiled", "Weights of layers that are split into row tiles">
  ];
}

def SpmdOverlap : Pass<"spmd-overlap", "::heddle::nn::ModelOp"> {
  let summary = "Starts communication early and waits for it late.";
  let description = [{
    ZeRO 3's all-gather of a layer's parameters starts while the layer before it runs.
    The reduce-scatter of a layer's gradients is waited for after the next layer. So
    memory holds the gathered parameters of at most two layers, and the gradients of
    at most two. An all-gather starts when the layer needs it, instead of earlier, if
    it has more elements than the strategy's `prefetch_bucket_size`, or if more than
    `max_live_parameters` elements would be gathered at the same time. The
    all-gathers of split activations stay where `spmd-partition-activations` put them,
    and are waited for where they are read.

    ```mlir
    %0 = dist.all_gather %p axes ["data"] dim 0 for "h.1" {pending} : ...
    %1:2 = nn.call @block.fwd(...) path "h.0" : ...
    %2 = dist.wait %0 : ...
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect"];
  let statistics = [
    Statistic<"numPrefetched", "prefetched", "All-gathers that start a layer earlier">,
    Statistic<"numDeferred", "deferred", "Reduce-scatters that are waited for a layer later">
  ];
}

def SpmdAdvanceUpdates : Pass<"spmd-advance-updates", "::heddle::nn::ModelOp"> {
  let summary = "Updates offloaded states beside the backward pass.";
  let description = [{
    An update of offloaded states moves into the micro-batch, to the place after the
    last operation that writes its gradients or reads its parameters. So its states
    are fetched and stored while the rest of the backward pass runs. The update of a
    bucket becomes one update for each of several ranges of its members. A range has
    the size of a state tile (see `spmd-stream-states`).

    The last of several micro-batches, or the last fragment of a pipeline stage, gets a
    loop of its own for that. An update stays after the loop if it depends on all
    gradients. These are updates that wait for the gradient norm (all except delayed
    ones, `delayed_update`), updates of LAMB, and updates whose gradients are reduced
    after the loop (ZeRO 0 and 1, tied embeddings) or are offloaded. All updates stay
    in a step of which `--dump` keeps values.

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

def SpmdFetchParameters : Pass<"spmd-fetch-parameters", "::heddle::nn::ModelOp"> {
  let summary = "Fetches offloaded parameters before they are used.";
  let description = [{
    Offloaded parameters are fetched for each layer, and for operations outside of
    layers. Parameters that lie close together in a flat state are fetched with one
    transfer, which begins at a page. A layer's fetches start while the layer before it
    runs, within the strategy's `prefetch_bucket_size` and `max_live_parameters`. The
    fetched copy is dropped after the layer, except the last layer's, which serves the
    forward and the backward pass. Parameters that ranks all-gather are fetched one
    layer before their all-gather.

    An embedding fetches the rows of its tokens (`dist.fetch_rows`) if they have fewer
    bytes than the table. A flat state that ranks all-gather after its update is
    stored. Updates of state tiles are left to `spmd-stream-states`.

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
    Statistic<"numFetched", "fetched", "Transfers that fetch parameters">
  ];
}

def SpmdHostUpdates : Pass<"spmd-host-updates", "::mlir::ModuleOp"> {
  let summary = "Lets the host update states that are in its memory.";
  let description = [{
    The host computes the first updates of a step, with at most the share
    `host_updates` of all elements, and leaves their states where they are. It works
    tile by tile. Operands in the device's memory, such as gradients, are moved to the
    host while the tile before is updated. Results that the device computes with are
    moved back. Both keep their element types.

    At most `in-flight` tiles are on their way back when the next one begins. The last
    ones are waited for at the end of the block, so that they overlap with the rest of
    the backward pass. If an update has more elements than the share has left, it is
    split, and a range of its bucket's members is updated by the host. The device keeps
    updates of states on file, and updates whose results other operations read.

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
           "Tiles that may be on their way back when the next one begins">
  ];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::heddle::nn::NNDialect"];
  let statistics = [
    Statistic<"numTiles", "tiles", "Tiles of states that the host updates in a step">
  ];
}

def SpmdStartGradients : Pass<"spmd-start-gradients", "::heddle::nn::ModelOp"> {
  let summary = "Lets the first micro-batch add offloaded gradients to zeros on the device.";
  let description = [{
    A step sets offloaded gradients to zero before its micro-batches add to them. This
    pass removes these stores: the first micro-batch gets a loop of its own, in which
    each layer adds to zeros in the device's memory. So with N micro-batches a gradient
    is stored N times instead of N + 1, and fetched N - 1 times instead of N. The sums
    have the same bits. Pipeline stages, and steps of which `--dump` keeps values, stay
    as they are.

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
    Statistic<"numStarted", "started", "Gradients that are not stored as zeros">
  ];
}

def SpmdStreamGradients : Pass<"spmd-stream-gradients", "::heddle::nn::ModelOp"> {
  let summary = "Fetches and stores offloaded gradients around each layer.";
  let description = [{
    An offloaded gradient that a layer adds to is fetched while the layer before runs,
    and stored while the next one runs. With one micro-batch it is only stored.
    Gradients that lie side by side in a flat state are moved with one transfer.
    Transfers of a file move whole pages: a page with gradients of two layers is stored
    when the second of them is computed.

    Gradients that begin as zeros are filled tile by tile. The gradient norm is
    computed from sums of squares of blocks, as `fuse-split-norms` writes it;
    `spmd-stream-states` splits these sums and the update into tiles later. Gradients
    that ranks reduce after the last micro-batch are fetched whole.

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
    Statistic<"numStored", "stored", "Transfers that store gradients">,
    Statistic<"numFetched", "fetched", "Transfers that fetch gradients">
  ];
}

def SpmdStreamStates : Pass<"spmd-stream-states", "::heddle::nn::ModelOp"> {
  let summary = "Updates offloaded states tile by tile.";
  let description = [{
    An update of offloaded states becomes one update for each tile of them. A tile has a
    64th of all elements that the step updates, but at least 2^18 and at most 2^24 or a
    128th of all; then at most `sub_group_size`, rounded up to a multiple of 1024. All
    tiles but the last have this size.

    A tile is fetched while the tile before it is updated, and stored while the next
    one is updated. The fetch of tile i + `ahead` starts after the update of tile i,
    when the store of tile i - 1 is complete. So each state needs device memory for
    `ahead` tiles and one more.
    Beside the backward pass, all tiles of a layer are fetched while the layer before it
    runs, and stored while the next one runs. Sums of squares of offloaded gradients are
    computed by tiles too, which consist of whole blocks.

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
           "Tiles that are fetched while the tiles before them are updated">
  ];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::heddle::nn::NNDialect"];
  let statistics = [
    Statistic<"numTiles", "tiles", "Tiles of states that are updated in a step">
  ];
}

def SpmdStreamActivations : Pass<"spmd-stream-activations", "::mlir::ModuleOp"> {
  let summary = "Offloads saved activations until the backward pass.";
  let description = [{
    A saved activation whose next use is three or more layers away is stored in the
    memory that the strategy's `activations` names. The store starts after the value's
    last use in the forward pass, and is waited for one layer later, so that it
    overlaps with that layer. The fetch starts one layer before the next use. So device
    memory holds the activations of two layers that are being stored, and of two that
    are being fetched. In a pipeline, the slots that hold activations for the backward
    pass are offloaded in the same way. Weights, values smaller than a page and values
    that are sent to another stage stay in the device's memory.

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

def SpmdConditionTransfers : Pass<"spmd-condition-transfers", "::heddle::nn::ModelOp"> {
  let summary = "Lets steps skip the transfers of layers that they drop.";
  let description = [{
    Gives the condition of a call to all operations that serve only calls with this
    condition, such as the all-gather of the layer's parameters and the wait for it, and
    to the operations that use values which the skipped call does not compute. The sum
    of a state and a gradient that is then zero is skipped too, with the reduce-scatter
    of the gradient. An operation that was moved across another layer keeps its
    condition: if that layer is skipped, the transfer overlaps with nothing.

    ```mlir
    %0 = nn.get @parameters.h.3 : tensor<64xf32>
    %1 = dist.all_gather %0 axes ["data"] dim 0 for "h.3" : tensor<64xf32> -> tensor<128xf32>
    %2 = nn.call @block(%x, %1) path "h.3" when @h.3.kept passes [0] : ...
    // becomes
    %0 = nn.get @parameters.h.3 {nn.when = @h.3.kept} : tensor<64xf32>
    %1 = dist.all_gather %0 axes ["data"] dim 0 for "h.3" {nn.when = @h.3.kept} : tensor<64xf32> -> tensor<128xf32>
    %2 = nn.call @block(%x, %1) path "h.3" when @h.3.kept passes [0] : ...
    ```
  }];
  let statistics = [
    Statistic<"numConditions", "conditions", "Operations that steps may skip">
  ];
}

def SpmdVerify : Pass<"spmd-verify", "::heddle::nn::ModelOp"> {
  let summary = "Checks what the spmd phase promises.";
  let description = [{
    No sharding attribute and no `dist.reshard` is left. Collectives, states and ports
    have the sizes of a rank's shards. Offloaded states are accessed with `dist.fetch`
    and `dist.store` only. States are read and written in the order that the train
    phase promises: for example, a gradient is cleared before it is added to. An
    operation that serves only a layer that steps may skip has the layer's condition.
  }];
}

#endif // HEDDLE_TRANSFORMS_SPMD_PASSES
