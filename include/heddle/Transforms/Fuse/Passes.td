//===- Passes.td - Passes of lib/Transforms/Fuse -----------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_FUSE_PASSES
#define HEDDLE_TRANSFORMS_FUSE_PASSES

include "mlir/Pass/PassBase.td"

def FuseFormKernels : Pass<"fuse-form-kernels", "::heddle::nn::ModelOp"> {
  let summary = "Puts every operation into exactly one kernel.";
  let description = [{
    An operation joins the group that computes one of its operands, if one kernel can
    compute both. Chains of element-wise operations and row reductions over the same
    rows become one kernel. Element-wise operations after a matrix product become its
    epilogue. The target adds rules of its own (`FusionRules` in
    `Codegen/Common/Target.h`). For example, a GPU's row kernel also computes column
    sums of the rows that it reads, so the gradients of a norm's weights join the
    gradient of its input. Each group is outlined into a `plan.kernel`. Every refused
    join leaves a remark, which `--verbose` prints.

    The strategy's `fusion` is the policy: `deep` fuses as described; `generic` gives
    each matrix product a kernel without other operations; `none` gives every operation
    a kernel.

    On x86-64, adjacent products with packed weights that multiply the same rows become
    one kernel (`fuse-gather-products` makes them adjacent). Operations on the heads of
    their results join it, and so does the operation that computes the rows, if these
    are few:

    ```mlir
    %h, %r = nn.rms_norm %x, %g : ...
    %q = nn.packed_linear %h, %wq : ...
    %k = nn.packed_linear %h, %wk : ...
    %t = nn.rotary %k at %p : ...
    // becomes
    %q, %t = plan.launch @rms_norm_packed_linear_packed_linear_rotary(%x, %g, %wq, %wk, %p)
    ```

    ```mlir
    %f = nn.linear %x, %w bias %b : ...
    %g = nn.map gelu_tanh(%f) : ...
    // becomes
    %f, %g = plan.launch @linear_gelu_tanh(%x, %w, %b) : ...
    ```
  }];
  let options = [
    Option<"remarks", "remarks", "bool", "false",
           "Emit a remark for every refused join, with the reason">
  ];
  let statistics = [
    Statistic<"numKernels", "kernels", "Kernels that were formed">,
    Statistic<"numFused", "fused operations",
              "Operations that share a kernel with another">
  ];
  let dependentDialects = ["::heddle::planir::PlanDialect"];
}

def FuseGatherProducts : Pass<"fuse-gather-products", "::heddle::nn::ModelOp"> {
  let summary = "Makes products of the same rows with packed weights adjacent.";
  let description = [{
    Prepares horizontal fusion: queries, keys and values are products of the same rows,
    and so are the gate and the input of an MLP. Each such product moves to the place
    after the previous product of the same rows, if its other operands are computed
    there. `fuse-form-kernels` then joins adjacent products into one kernel. Nothing
    moves where the target or the fusion policy keeps products apart
    (`FusionRules::joinsPackedProducts`).

    ```mlir
    %q = nn.packed_linear %x, %wq : ...
    %a = nn.map silu(%q) : ...
    %k = nn.packed_linear %x, %wk : ...
    // becomes
    %q = nn.packed_linear %x, %wq : ...
    %k = nn.packed_linear %x, %wk : ...
    %a = nn.map silu(%q) : ...
    ```
  }];
  let statistics = [
    Statistic<"numGathered", "gathered", "Products that were moved">
  ];
}

def FusePackWeights : Pass<"fuse-pack-weights", "::mlir::ModuleOp"> {
  let summary = "Packs the weights of products for inference, as int4 or int8 codes if asked.";
  let description = [{
    Runs for models that do not train, or if the option `bits` asks for it. A product
    whose weight is a parameter becomes `nn.packed_linear`. Its weight is a derived
    state, which the binary computes when it loads weights, in the order in which the
    kernel reads it. So no product packs weights while it runs. If nothing else reads
    the parameter, it is removed, and its values are never in memory as a whole. The
    target chooses the layout of packed weights (`FusionRules::packedLayout`).

    With `bits`, weights are quantized: int4 or int8 codes with one scale for each group
    of inputs. The group size must divide the number of inputs (H0144). Weights whose
    names match `keep` are not quantized.

    Runs after the spmd phase, since each rank packs its shard of a weight: so every
    sharding of a product is supported.

    ```mlir
    %w = nn.get @h.0.mlp.c_fc.weight : tensor<768x3072xbf16>
    %y = nn.linear %x, %w : ...
    // becomes
    %w = nn.get @h.0.mlp.c_fc.weight.words : tensor<96x96x32xi32>
    %s = nn.get @h.0.mlp.c_fc.weight.scales : tensor<96x12x32xf16>
    %y = nn.packed_linear %x, %w scales %s bits 4 : ...
    ```
  }];
  let options = [
    Option<"bits", "bits", "int64_t", "-1",
           "Bits of a code: 8 or 4; 0: not quantized; -1: as the strategy says">,
    Option<"group", "group", "int64_t", "0",
           "Inputs that share a scale; 0: all inputs of an output">,
    Option<"even", "even", "bool", "true", "Symmetric quantization, without zero points">,
    Option<"roundInputs", "round-inputs", "bool", "false",
           "Quantize the inputs of quantized products to int8 while they run">,
    ListOption<"keep", "keep", "std::string",
               "Patterns of the names of weights that are not quantized">
  ];
  let statistics = [
    Statistic<"numPacked", "packed", "Products with packed weights">
  ];
}

def FusePadRows : Pass<"fuse-pad-rows", "::heddle::nn::ModelOp"> {
  let summary = "Pads rows so that they begin at aligned addresses.";
  let description = [{
    A row of 50257 logits in bf16 has 100514 bytes. The second row begins at no multiple
    of four, so a kernel could move it only two bytes at a time. If the target asks for
    it (`FusionRules::rowAlignment`), rows that products read or write get padding.
    Types do not change: kernels have the leading dimension of each padded operand in
    `leading_dimensions`, in elements.

    Only values that kernels of one function write and read are padded. Values that are
    stored in a state, returned, kept by a dump, sent or reduced over ranks are not
    padded. Neither are values that share a kernel's operand, or a shape within one
    kernel, with a value that is not padded.

    ```mlir
    plan.kernel @linear(%x: tensor<4x8xbf16>, %w: tensor<8x7xbf16>) -> tensor<4x7xbf16>
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>}
    // becomes
    plan.kernel @linear(%x: tensor<4x8xbf16>, %w: tensor<8x7xbf16>) -> tensor<4x7xbf16>
        attributes {generator = #plan.generator<gemm>, leading_dimensions = array<i64: 0, 0, 16>, ties = array<i64: -1>}
    ```
  }];
  let statistics = [
    Statistic<"numPadded", "padded", "Operands of kernels that got padding">
  ];
}

def FuseSplitAttention : Pass<"fuse-split-attention"> {
  let summary = "Splits the attention of one token over threads.";
  let description = [{
    Applies to programs that decode one token of each sequence. Their attention has as
    many independent pieces of work as there are key heads, which may be fewer than
    threads. `nn.paged_attention` processes keys in ranges of a fixed length. This pass
    makes one launch compute the partial result of each range, and a second launch join
    them (as Flash-Decoding does). The result has the same bits. Attention over no more
    positions than one range, and programs of several tokens, are left alone.

    ```mlir
    %y = nn.paged_attention %k, %v of %x ... : ... -> tensor<1x1x768xbf16>
    // becomes
    %p = nn.paged_attention %k, %v of %x ... {in_parts} : ... -> tensor<1x1x16x12x66xf32>
    %y = nn.paged_attention_join %p at %positions lengths %n {part_tokens = 256 : i64}
        : ... -> tensor<1x1x768xbf16>
    ```
  }];
  let statistics = [
    Statistic<"numSplit", "split", "Attention operations that are split">
  ];
}

def FuseSplitNorms : Pass<"fuse-split-norms"> {
  let summary = "Computes the norm of long tensors in two launches.";
  let description = [{
    A kernel has no barrier between threads, and the order of a sum must not depend on
    the number of threads. So a first launch sums blocks of a fixed size, on all
    threads, and a second launch adds these sums on one thread.

    ```mlir
    %n = nn.global_norm %g : (tensor<200000xf32>) -> tensor<f32>
    // becomes
    %s = nn.square_sums %g : (tensor<200000xf32>) -> tensor<4xf32>
    %n = nn.global_norm %s {summed} : (tensor<4xf32>) -> tensor<f32>
    ```
  }];
  let statistics = [
    Statistic<"numSplit", "split", "Norms that take two launches">
  ];
}

def FuseSplitSums : Pass<"fuse-split-sums", "::heddle::nn::ModelOp"> {
  let summary = "Splits the accumulation of a bias gradient from its sum.";
  let description = [{
    With several micro-batches the gradient of a bias is a sum of rows that is added to
    the sum so far. cuBLASLt can sum the rows of a product's operand in its epilogue,
    but cannot add to an initial value (`FusionRules::sumsOntoInits` is false). So the
    product computes the sum alone, and an addition of two vectors follows. All such
    additions of a layer become one kernel. Only sums in f32 are split: others would be
    rounded twice.

    ```mlir
    %w = nn.linear_grad_weight %x, %g init %i : ...
    %b = nn.sum_rows %g init %j : (tensor<4x8xbf16>, tensor<8xf32>) -> tensor<8xf32>
    // becomes
    %w = nn.linear_grad_weight %x, %g init %i : ...
    %s = nn.sum_rows %g : (tensor<4x8xbf16>) -> tensor<8xf32>
    %b = nn.sum_rows %s init %j : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let statistics = [
    Statistic<"numSplit", "split", "Sums that were split">
  ];
}

def FuseVerify : Pass<"fuse-verify", "::heddle::nn::ModelOp"> {
  let summary = "Checks what the fuse phase promises.";
  let description = [{
    Functions and steps hold launches, calls, and reads and writes of states. No other
    operation computes outside of a kernel. Each kernel's body is one that its generator
    accepts, its ties are legal, and padded rows have the same leading dimension in all
    kernels that use them.
  }];
}

#endif // HEDDLE_TRANSFORMS_FUSE_PASSES
