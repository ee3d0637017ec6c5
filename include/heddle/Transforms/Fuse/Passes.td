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

def FuseFormKernels : Pass<"fuse-form-kernels", "::mlir::ModuleOp"> {
  let summary = "Puts every operation into exactly one kernel.";
  let description = [{
    Operations join the group of an operand where one kernel can do both: chains
    of element-wise operations and row reductions over one set of rows become one
    kernel; element-wise operations behind a product become its epilogue. What a
    kernel takes beside that, the strategy's target says (`FusionRules` in
    `Codegen/Common/Target.h`). For example, kernels over rows of GPUs also sum
    the rows that they read: the gradients of a norm's weights join that of its
    input. Each group is outlined into a `plan.kernel`. Every join that was refused leaves a
    remark (`-debug-only` is not needed: `--verbose` prints them).

    The strategy's `fusion` is the policy. `deep` is what is said above. With `generic`,
    products have kernels of their own; with `none`, every operation has.
    x86-64 also joins products with packed weights that multiply the same rows, one
    behind the other (`fuse-gather-products`), what works on heads of the results and, if the rows are few, what makes these:

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
           "Report every join that was refused, and why">
  ];
  let statistics = [
    Statistic<"numKernels", "kernels", "Kernels that were formed">,
    Statistic<"numFused", "fused operations",
              "Operations that share a kernel with another">
  ];
  let dependentDialects = ["::heddle::planir::PlanDialect"];
}

def FuseGatherProducts : Pass<"fuse-gather-products", "::mlir::ModuleOp"> {
  let summary = "Puts products of the same rows with packed weights side by side.";
  let description = [{
    Horizontal fusion: queries, keys and values multiply the same rows, and so do
    the gate and the input of an MLP. Each product moves behind the one before it
    that multiplies these rows, if what it reads besides is there. So one kernel
    can take them all, with the packed weight of each: `fuse-form-kernels` joins what
    stands side by side. Nothing moves where the target or the policy of fusion
    keeps them apart (`FusionRules::joinsPackedProducts`).

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
  let summary = "Packs the weights of products, quantized or not.";
  let description = [{
    For models that serve, or as the option `bits` says. GPUs have no code for
    it (H0143). A product whose weight is a parameter reads states in its place that are derived from it when weights are
    loaded, in the order in which the product reads them (`nn.packed_linear`).
    A parameter that nothing else reads is no state any more: its values are
    never in memory as a whole, and no product packs anything while it runs.
    With `bits` the values are codes with a scale for each group; weights whose
    names match `keep` stay what they are. A group must divide the inputs of a
    weight (H0144).

    It stands behind the spmd phase: each rank packs its part of a weight, so
    any split of a product will do.

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
           "Of a code: 8 or 4; 0: no codes; -1: as the strategy says">,
    Option<"group", "group", "int64_t", "0",
           "Inputs that share a scale; 0: all of an output">,
    Option<"even", "even", "bool", "true", "Without zeros">,
    Option<"roundInputs", "round-inputs", "bool", "false",
           "Products with codes round their inputs to codes of 8 bits">,
    ListOption<"keep", "keep", "std::string",
               "Patterns of the names of weights without codes">
  ];
  let statistics = [
    Statistic<"numPacked", "packed", "Products with packed weights">
  ];
}

def FusePitchRows : Pass<"fuse-pitch-rows", "::mlir::ModuleOp"> {
  let summary = "Lets rows begin where memory is aligned.";
  let description = [{
    A row of 50257 logits in bf16 has 100514 bytes: a kernel moves the next one
    two bytes at a time, for it begins at no multiple of four. So where the
    strategy's target says (`FusionRules::rowAlignment`), rows that products read
    or write get gaps behind them. The types stay, the kernels say how far apart
    rows begin.

    Only values that kernels make and read within one function have gaps: what is
    stored in a state, returned, kept, sent or summed over ranks has none, nor
    has what the same kernel reads somewhere else without, or takes beside a
    value of the same shape without.

    ```mlir
    plan.kernel @linear(%x: tensor<4x8xbf16>, %w: tensor<8x7xbf16>) -> tensor<4x7xbf16>
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>}
    // becomes
    plan.kernel @linear(%x: tensor<4x8xbf16>, %w: tensor<8x7xbf16>) -> tensor<4x7xbf16>
        attributes {generator = #plan.generator<gemm>, pitches = array<i64: 0, 0, 16>, ties = array<i64: -1>}
    ```
  }];
  let statistics = [
    Statistic<"numPitched", "pitched", "Operands of kernels that got gaps">
  ];
}

def FuseSplitAttention : Pass<"fuse-split-attention", "::mlir::ModuleOp"> {
  let summary = "Splits the keys of one token's attention between threads.";
  let description = [{
    A row of a program that computes one token of each text has as many pieces of work as
    it has heads of keys, which may be fewer than there are threads. The parts in which
    nn.paged_attention takes its keys are pieces of their own where they are results: one
    launch computes them, a second one joins them. No bit changes. A row that has no more
    positions than a part stays as it is, and so do programs of many tokens.

    ```mlir
    %y = nn.paged_attention %k, %v of %x ... : ... -> tensor<1x1x768xbf16>
    // becomes
    %p = nn.paged_attention %k, %v of %x ... {in_parts} : ... -> tensor<1x1x16x12x66xf32>
    %y = nn.paged_attention_join %p at %positions lengths %n {part_tokens = 256 : i64}
        : ... -> tensor<1x1x768xbf16>
    ```
  }];
  let statistics = [
    Statistic<"numSplit", "split", "Attentions whose keys are split">
  ];
}

def FuseSplitNorms : Pass<"fuse-split-norms", "::mlir::ModuleOp"> {
  let summary = "Makes the norm of long tensors in two steps.";
  let description = [{
    A kernel has no barrier, and the order of a sum must not depend on the number
    of threads. So all threads sum blocks of fixed size in one launch, and one
    thread sums those sums in a second.

    ```mlir
    %n = nn.global_norm %g : (tensor<200000xf32>) -> tensor<f32>
    // becomes
    %s = nn.square_sums %g : (tensor<200000xf32>) -> tensor<4xf32>
    %n = nn.global_norm %s {summed} : (tensor<4xf32>) -> tensor<f32>
    ```
  }];
  let statistics = [
    Statistic<"numSplit", "split", "Norms that take two steps">
  ];
}

def FuseSplitSums : Pass<"fuse-split-sums", "::mlir::ModuleOp"> {
  let summary = "Sums rows beside a product, and adds what was there later.";
  let description = [{
    With several micro-batches the gradient of a bias is added to what stands
    there. cuBLASLt sums the rows that it multiplies, but onto nothing. So where
    the target's products cannot add to an initial value
    (`FusionRules::sumsOntoInits` is false), the product sums them alone, and the vector that this gives is added to the other one. A layer's sums of vectors
    become one kernel. Only sums in f32 are split: others would be rounded twice.

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

def FuseVerify : Pass<"fuse-verify", "::mlir::ModuleOp"> {
  let summary = "Checks what the fuse phase promises.";
  let description = [{
    Functions and steps hold launches, calls, reads and writes of states, and
    nothing that computes outside a kernel.
  }];
}

#endif // HEDDLE_TRANSFORMS_FUSE_PASSES
