//===- NNAttentionOps.td - Attention and rotary embeddings -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rotary embeddings and attention. This file uses the classes of NNOps.td,
// which includes it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_ATTENTIONOPS
#define HEDDLE_DIALECTS_NN_ATTENTIONOPS

def NN_RotaryOp : NN_ComputeOp<"rotary",
    (ins NN_Float:$input, NN_Ids:$positions, I64Attr:$heads, I64Attr:$dims,
         F64Attr:$theta, OptionalAttr<NN_RotaryScalingAttr>:$scaling,
         UnitAttr:$inverse)> {
  let summary = "Rotary position embedding, half-split, on the first `dims` of each head.";
  let description = [{
    x and out are [B, T, heads * D], `positions` is [B, T].

    ```mlir
    %y = nn.rotary %x at %positions {dims = 64 : i64, heads = 12 : i64, theta = 1.000000e+04 : f64}
        : (tensor<2x16x768xf32>, tensor<2x16xi32>) -> tensor<2x16x768xf32>
    ```

    For i < dims / 2 the pair of features (x[i], x[i + dims / 2]) of each head
    is rotated by the angle position * f, with the frequency
    f = theta^(-2 i / dims) (Su et al., arXiv 2104.09864, with the pairs of the
    Hugging Face layout). The other features do not change. With `inverse` the
    angle is negated, which gives the gradient. `scaling` changes the
    frequencies and multiplies the rotated features by a factor.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input `at` $positions attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat([{
    /// The frequency of the pair of features with index `pair`: by how many
    /// radians it is rotated from one position to the next.
    double getRate(int64_t pair);
    /// The factor that multiplies the rotated features.
    double getMagnitude();
    int64_t getHeadColumns() {
      return getOutput().getType().getDimSize(2) /
             static_cast<int64_t>(getHeads());
    }
  }], NN_Localize.declaration);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def NN_HeadsAttr : AttrDef<NN_Dialect, "Heads"> {
  let mnemonic = "heads";
  let summary = "The heads of attention, and the scale and soft cap of its scores.";
  let description = [{
    ```mlir
    #nn.heads<12, scale = 0.125>
    #nn.heads<12, kv = 4, scale = 0.125>
    #nn.heads<12, scale = 0.125, softcap = 50.0>
    ```

    The first number is the number of query heads. `kv` is the number of heads
    of keys and values if it differs (grouped-query attention): query head h
    reads key and value head h / (heads / kv). Scores are multiplied by `scale`.
    With `softcap` a score s then becomes softcap * tanh(s / softcap)
    (Gemma team, arXiv 2408.00118); 0, the default, means no soft cap.
  }];
  let parameters = (ins "int64_t":$count, "int64_t":$kv, APFloatParameter<"">:$scale,
                        APFloatParameter<"">:$softcap);
  let builders = [AttrBuilder<(ins "int64_t":$count, "int64_t":$kv, "double":$scale,
                                   CArg<"double", "0">:$softcap), [{
    return $_get($_ctxt, count, kv, ::llvm::APFloat(scale), ::llvm::APFloat(softcap));
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The attribute with the heads of one rank, if `ranks` ranks split the
    /// heads of this attribute.
    HeadsAttr splitBetween(int64_t ranks) const;
  }];
}

def NN_MaskAttr : AttrDef<NN_Dialect, "Mask"> {
  let mnemonic = "mask";
  let summary = "Which keys a query sees: all, or with `causal` those up to its position.";
  let description = [{
    ```mlir
    #nn.mask<full>
    #nn.mask<causal>
    #nn.mask<causal, window = 128>
    #nn.mask<full, block = 64, density = 0.25>
    ```

    With `window` a query sees only the last `window` of these keys, including
    the key at its own position; 0, the default, means all. Kernels skip keys
    that no query of a block sees.

    With `block` the sequence is cut into blocks of this many positions, and the
    operand `layout` says which blocks of keys a block of queries sees (Child et
    al., arXiv 1904.10509). A causal mask hides later keys of these blocks, too.
    `density` is the share of the pairs of blocks that are in the layout, from
    which the cost is computed; it is the mean over all layouts with which a
    function is called.
  }];
  let parameters = (ins EnumParameter<NN_MaskKind>:$kind,
                        DefaultValuedParameter<"int64_t", "0">:$window,
                        DefaultValuedParameter<"int64_t", "0">:$block,
                        DefaultValuedParameter<"::mlir::FloatAttr", "::mlir::FloatAttr()">:$density);
  let builders = [AttrBuilder<(ins "::heddle::nn::MaskKind":$kind, CArg<"int64_t", "0">:$window), [{
    return $_get($_ctxt, kind, window, 0, ::mlir::FloatAttr());
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isCausal() const { return getKind() == MaskKind::Causal; }
    /// Whether a layout says which blocks of keys a query sees.
    bool hasLayout() const { return getBlock() > 0; }
    /// The number of keys that a query sees, as the mean over all queries of a
    /// sequence of `length` positions.
    double meanKeys(int64_t length) const;
  }];
}

def NN_DropoutAttr : AttrDef<NN_Dialect, "Dropout"> {
  let mnemonic = "dropout";
  let summary = "Dropout of attention's probabilities with probability `p`.";
  let description = [{
    ```mlir
    #nn.dropout<0.1, site = 3>
    ```

    `site` selects the stream of random numbers, as in the operation nn.dropout.
  }];
  let parameters = (ins APFloatParameter<"">:$p, "int32_t":$site);
  let builders = [AttrBuilder<(ins "double":$p, "int32_t":$site), [{
    return $_get($_ctxt, ::llvm::APFloat(p), site);
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def NN_PlacementAttr : AttrDef<NN_Dialect, "Placement"> {
  let mnemonic = "placement";
  let summary = "How ranks split attention.";
  let description = [{
    ```mlir
    #nn.placement<parts = 2, sequence_shards = 4>
    #nn.placement<ring = true>
    ```

    Ranks split the heads into `parts` parts and the sequence into
    `sequence_shards` shards; both are 1 by default, and the spmd phase sets
    them. `ring`, set before that phase, allows the sharding rule to split the
    sequence: the operation then becomes ring attention, in which ranks pass
    keys and values around.
  }];
  let parameters = (ins DefaultValuedParameter<"int64_t", "1">:$parts,
                        DefaultValuedParameter<"int64_t", "1">:$sequence_shards,
                        DefaultValuedParameter<"bool", "false">:$ring);
  let assemblyFormat = "`<` struct($parts, $sequence_shards, $ring) `>`";
  let genVerifyDecl = 1;
}

/// The operands and attributes that attention and its gradient have in common,
/// besides q, k and v.
defvar NN_AttentionContext = (ins Optional<NN_Ids>:$lengths, Optional<NN_Ids>:$layout, Optional<NN_Rng>:$rng,
    Optional<Index>:$layer, Optional<Index>:$micro_batch, Optional<Index>:$part,
    Optional<Index>:$sequence_shard, Optional<Index>:$ring_step, NN_HeadsAttr:$heads,
    NN_MaskAttr:$mask, OptionalAttr<NN_DropoutAttr>:$dropout,
    OptionalAttr<NN_PlacementAttr>:$placement);
defvar NN_AttentionContextFormat = [{
    (`lengths` $lengths^)? (`layout` $layout^)? (`rng` $rng^ `layer` $layer `micro_batch` $micro_batch)?
    (`part` $part^)? (`sequence_shard` $sequence_shard^ `ring_step` $ring_step)? attr-dict `:`
    functional-type(operands, results)
}];

def NN_AttentionOp : NN_ComputeOp<"attention",
    !con((ins Variadic<NN_Float>:$qkv), NN_AttentionContext),
    [AttrSizedOperandSegments, NN_MixesPositions, NN_AttentionLike]> {
  let summary = "softmax(scale q k^T) v, by heads; scores may have a soft cap.";
  let description = [{
    `qkv` is either one operand [B, T, (heads + 2 kv) * D], with q, k and v side
    by side along the last dimension, or three operands: q [B, T, heads * D],
    k and v [B, T, kv * D]. `output` is [B, T, heads * D]. `lse`
    [B, heads, T] f32 is the log-sum-exp of the scaled scores of each query.

    ```mlir
    %y, %lse = nn.attention %x lengths %n {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>}
        : (tensor<2x6x24xf32>, tensor<2xi32>) -> (tensor<2x6x8xf32>, tensor<2x2x6xf32>)
    ```

    With `lengths` [B], no query of row b sees keys from position lengths[b] on,
    so padding may hold any value. Queries at these positions see the other
    keys. A query that sees no key gives zeros, and the lowest f32 as lse.

    `layout` [heads or 1, T / block, words] says which blocks of keys queries
    see, if `mask` has a block: the queries of block i see the keys of block j
    in head h if bit j mod 32 of layout[h, i, j / 32] is 1. If its first
    dimension is 1, all heads have the same layout. If ranks split the heads or
    the sequence, the layout is that of the whole model.

    With `dropout`, the probabilities [B, heads, T, T] are dropped out as by
    nn.dropout. If ranks split the heads, `part` is the number of this rank's
    part: its heads are number part * heads and following of parts * heads in
    the tensor of probabilities.

    With `sequence_shard`, the sequence is split into `sequence_shards` shards
    of T positions (ring attention). The queries are shard number
    `sequence_shard`; keys and values are shard number
    (sequence_shard - ring_step) mod sequence_shards. `lengths` are those of the
    whole sequence.
  }];
  let results = (outs NN_Float:$output, NN_F32:$lse);
  let assemblyFormat = !strconcat("$qkv ", NN_AttentionContextFormat);
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(NN_Localize.declaration, NN_StaysF32<"result > 0">.declaration, NN_ModelFlops.declaration);
}

def NN_AttentionGradOp : NN_NonDifferentiableOp<"attention_grad",
    !con((ins NN_Float:$grad, Variadic<NN_Float>:$qkv, NN_Float:$forward, NN_F32:$lse),
         NN_AttentionContext),
    [AttrSizedOperandSegments, NN_MixesPositions, NN_AttentionLike]> {
  let summary = "Gradients of attention, one for each operand of `qkv`.";
  let description = [{
    `grad` is the gradient of nn.attention's output, `forward` that output and
    `lse` its log-sum-exp. The results have the types of the operands `qkv`.

    ```mlir
    %dx = nn.attention_grad %dy, %x forward %y lse %lse
        {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>}
        : (tensor<2x6x8xf32>, tensor<2x6x24xf32>, tensor<2x6x8xf32>, tensor<2x2x6xf32>)
        -> tensor<2x6x24xf32>
    ```

    The probabilities are recomputed from q, k and `lse` (Dao et al.,
    arXiv 2205.14135, algorithm 4). Keys and values beyond the row's length have
    gradient zero. With `sequence_shard` the results are the gradients from this
    ring step's keys only, while `forward` and `lse` are those over all keys.
  }];
  let results = (outs Variadic<NN_Float>:$outputs);
  let assemblyFormat = !strconcat("$grad `,` $qkv `forward` $forward `lse` $lse ", NN_AttentionContextFormat);
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(NN_Localize.declaration, NN_ModelFlops.declaration);
}

def NN_AttentionJoinOp : NN_NonDifferentiableOp<"attention_join",
    (ins NN_Float:$left, NN_F32:$left_lse, NN_Float:$right, NN_F32:$right_lse)> {
  let summary = "Combines the outputs of nn.attention over two disjoint sets of keys.";
  let description = [{
    `left`, `right` and the output are [B, T, heads * D], `left_lse` and
    `right_lse` [B, heads, T].

    ```mlir
    %y = nn.attention_join %y0, %lse0, %y1, %lse1
        : (tensor<2x6x8xf32>, tensor<2x2x6xf32>, tensor<2x6x8xf32>, tensor<2x2x6xf32>)
        -> tensor<2x6x8xf32>
    ```

    For each head, output = exp(left_lse - lse) left + exp(right_lse - lse) right
    with lse = log(exp(left_lse) + exp(right_lse)), which nn.log_add_exp
    computes. A query that sees no key of either set gives zeros.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $left `,` $left_lse `,` $right `,` $right_lse attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_LogAddExpOp : NN_NonDifferentiableOp<"log_add_exp", (ins NN_F32:$lhs, NN_F32:$rhs),
    [SameOperandsAndResultType, NN_Elementwise]> {
  let summary = "out = log(exp(lhs) + exp(rhs)), element by element";
  let description = [{
    All have the same shape. The operation combines log-sum-exps of attention
    over two sets of keys.

    ```mlir
    %lse = nn.log_add_exp %lse0, %lse1
        : (tensor<2x2x6xf32>, tensor<2x2x6xf32>) -> tensor<2x2x6xf32>
    ```
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = NN_StaysF32<>.declaration;
}

#endif // HEDDLE_DIALECTS_NN_ATTENTIONOPS
