//===- NNAttentionOps.td - Attention and what goes with it -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A part of NNOps.td, whose classes it uses.
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
    x is [B, T, heads * D]. For i < dims / 2 the pair (x[i], x[i + dims / 2]) of
    each head is turned by the angle position * theta^(-2 i / dims), with
    `inverse` by its negative: which is the gradient (Su et al.,
    arXiv 2104.09864, in the order of the Hugging Face layouts). `scaling`
    changes the rates theta^(-2 i / dims), and the size of the result.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input `at` $positions attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat([{
    /// The angle of a pair from one position to the next.
    double getRate(int64_t pair);
    /// What is turned is multiplied by it.
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
  let summary = "The heads of attention, and what scores are multiplied by.";
  let description = [{
    `kv` is the number of heads of keys and values, where it is not that of the
    queries: query head h reads key/value head h / (heads / kv). With `softcap`
    a score s becomes softcap * tanh(s / softcap), which stays within it
    (Gemma team, arXiv 2408.00118); 0 and absent: it does not.

    ```mlir
    #nn.heads<12, scale = 0.125>
    #nn.heads<12, kv = 4, scale = 0.125>
    #nn.heads<12, scale = 0.125, softcap = 50.0>
    ```
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
    /// What one of so many ranks has of them.
    HeadsAttr splitBetween(int64_t ranks) const;
  }];
}

def NN_MaskAttr : AttrDef<NN_Dialect, "Mask"> {
  let mnemonic = "mask";
  let summary = "Which keys a query sees: with `causal` those up to its own position.";
  let description = [{
    With `window` the last so many of those, its own one counted; 0 and absent:
    all of them. Keys outside of all windows of a block of queries are neither
    read nor multiplied.

    ```mlir
    #nn.mask<full>
    #nn.mask<causal>
    #nn.mask<causal, window = 128>
    ```
  }];
  let parameters = (ins EnumParameter<NN_MaskKind>:$kind,
                        DefaultValuedParameter<"int64_t", "0">:$window);
  let assemblyFormat = "`<` $kind (`,` `window` `=` $window^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isCausal() const { return getKind() == MaskKind::Causal; }
  }];
}

def NN_DropoutAttr : AttrDef<NN_Dialect, "Dropout"> {
  let mnemonic = "dropout";
  let summary = "Zeroes with probability `p`, by the stream of random numbers `site`.";
  let description = [{
    ```mlir
    #nn.dropout<0.1, site = 3>
    ```
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
  let summary = "Into how many parts ranks cut attention.";
  let description = [{
    The heads are those of one of `parts` parts, the queries of one of `places`;
    both are 1 where they are not written. `ring` lets ranks split the sequence,
    before that is done: keys and values then go around.

    ```mlir
    #nn.placement<parts = 2, sequence_shards = 4>
    #nn.placement<ring = true>
    ```
  }];
  let parameters = (ins DefaultValuedParameter<"int64_t", "1">:$parts,
                        DefaultValuedParameter<"int64_t", "1">:$sequence_shards,
                        DefaultValuedParameter<"bool", "false">:$ring);
  let assemblyFormat = "`<` struct($parts, $sequence_shards, $ring) `>`";
  let genVerifyDecl = 1;
}

/// What attention and its gradient are told besides their tensors.
defvar NN_AttentionContext = (ins Optional<NN_Ids>:$lengths, Optional<NN_Rng>:$rng,
    Optional<Index>:$layer, Optional<Index>:$micro_batch, Optional<Index>:$part,
    Optional<Index>:$sequence_shard, Optional<Index>:$ring_step, NN_HeadsAttr:$heads,
    NN_MaskAttr:$mask, OptionalAttr<NN_DropoutAttr>:$dropout,
    OptionalAttr<NN_PlacementAttr>:$placement);
defvar NN_AttentionContextFormat = [{
    (`lengths` $lengths^)? (`rng` $rng^ `layer` $layer `micro_batch` $micro_batch)?
    (`part` $part^)? (`sequence_shard` $sequence_shard^ `ring_step` $ring_step)? attr-dict `:`
    functional-type(operands, results)
}];

def NN_AttentionOp : NN_ComputeOp<"attention",
    !con((ins Variadic<NN_Float>:$qkv), NN_AttentionContext),
    [AttrSizedOperandSegments, NN_MixesPositions, NN_AttentionLike]> {
  let summary = "softmax(scale q k^T) v, by heads; scores may have a soft cap.";
  let description = [{
    Either one operand [B, T, (heads + 2 kv) * D], q, k and v side by side along
    the last dimension, or three: q [B, T, heads * D], k and v [B, T, kv * D].
    `lse` [B, heads, T] f32 is the logarithm of the sum of exponentials of the
    scaled scores.

    ```mlir
    %y, %lse = nn.attention %x lengths %n {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>}
        : (tensor<2x6x24xf32>, tensor<2xi32>) -> (tensor<2x6x8xf32>, tensor<2x2x6xf32>)
    ```

    With `lengths` [B] the keys of row b from position lengths[b] on do not
    exist, whatever they hold. Queries there see the others. A query that sees
    no key gets zeros, and as lse the lowest f32.

    With `dropout` the probabilities are dropped out as nn.dropout does, over the
    tensor [B, heads, T, T]; with `part` these are heads part * heads and
    following of parts * heads.

    With `place` the sequence is cut into `places` parts of T positions. The
    queries are part `place`, keys and values part (place - turn) mod places;
    `lengths` are of the whole sequence.
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
    The scores are computed again from q, k and `lse` (Dao et al.,
    arXiv 2205.14135, algorithm 4); `forward` is the output of attention. Keys
    and values that do not exist have the gradient zero. With `place` these are
    the gradients that one part of the keys makes: `forward` and `lse` are those
    over all keys.
  }];
  let results = (outs Variadic<NN_Float>:$outputs);
  let assemblyFormat = !strconcat("$grad `,` $qkv `forward` $forward `lse` $lse ", NN_AttentionContextFormat);
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(NN_Localize.declaration, NN_ModelFlops.declaration);
}

def NN_AttentionJoinOp : NN_NonDifferentiableOp<"attention_join",
    (ins NN_Float:$left, NN_F32:$left_lse, NN_Float:$right, NN_F32:$right_lse)> {
  let summary = "The output of nn.attention over all keys from those of two parts.";
  let description = [{
    output = exp(left_lse - lse) left + exp(right_lse - lse) right, head by head,
    with lse = log(exp(left_lse) + exp(right_lse)), which nn.log_add_exp gives.
    A query that sees no key of either part has zeros and the lowest f32.
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
  let summary = "out = log(exp(lhs) + exp(rhs)), of equal shapes";
  let results = (outs NN_F32:$output);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = NN_StaysF32<>.declaration;
}

#endif // HEDDLE_DIALECTS_NN_ATTENTIONOPS
