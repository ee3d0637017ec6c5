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
  }], NN_Localize.declaration);
}

def NN_AttentionOp : NN_ComputeOp<"attention",
    (ins Variadic<NN_Float>:$qkv, Optional<NN_Rng>:$rng, Optional<Index>:$layer,
         Optional<Index>:$micro_batch, Optional<Index>:$part,
         Optional<Index>:$place, Optional<Index>:$turn, I64Attr:$heads,
         I64Attr:$kv_heads, F64Attr:$scale, UnitAttr:$causal,
         DefaultValuedAttr<F64Attr, "0.0">:$p, DefaultValuedAttr<I32Attr, "0">:$site,
         OptionalAttr<I64Attr>:$parts, OptionalAttr<I64Attr>:$places,
         UnitAttr:$ring),
    [AttrSizedOperandSegments, NN_MixesPositions]> {
  let summary = "softmax(scale q k^T) v, by heads.";
  let description = [{
    Either one operand [B, T, (heads + 2 kv_heads) * D], q, k and v side by side
    along the last dimension, or three: q [B, T, heads * D], k and v
    [B, T, kv_heads * D]. Query head h reads key/value head
    h / (heads / kv_heads). `lse` [B, heads, T] f32 is the logarithm of the sum
    of exponentials of the scaled scores. With p > 0 the probabilities are
    dropped out as nn.dropout does, over the tensor [B, heads, T, T]; with
    `part` these are heads part * heads and following of parts * heads.

    With `place` the sequence is cut into `places` parts of T positions. The
    queries are part `place`, keys and values part (place - turn) mod places.
    A query that sees none of these keys gets zeros, and as lse the lowest f32.
    `ring` lets ranks split the sequence; keys and values then go around.
  }];
  let results = (outs NN_Float:$output, NN_F32:$lse);
  let assemblyFormat = [{
    $qkv (`rng` $rng^ `layer` $layer `micro_batch` $micro_batch)?
    (`part` $part^)? (`place` $place^ `turn` $turn)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat([{
    /// The size of one head.
    int64_t getHeadDim();
  }], NN_Localize.declaration,NN_StaysF32<"result > 0">.declaration,NN_ModelFlops.declaration);
}

def NN_AttentionGradOp : NN_NonDifferentiableOp<"attention_grad",
    (ins NN_Float:$grad, Variadic<NN_Float>:$qkv, NN_Float:$forward, NN_F32:$lse,
         Optional<NN_Rng>:$rng, Optional<Index>:$layer,
         Optional<Index>:$micro_batch, Optional<Index>:$part,
         Optional<Index>:$place, Optional<Index>:$turn, I64Attr:$heads,
         I64Attr:$kv_heads, F64Attr:$scale, UnitAttr:$causal,
         DefaultValuedAttr<F64Attr, "0.0">:$p, DefaultValuedAttr<I32Attr, "0">:$site,
         OptionalAttr<I64Attr>:$parts, OptionalAttr<I64Attr>:$places,
         UnitAttr:$ring),
    [AttrSizedOperandSegments, NN_MixesPositions]> {
  let summary = "Gradients of attention, one for each operand of `qkv`.";
  let description = [{
    The scores are computed again from q, k and `lse` (Dao et al.,
    arXiv 2205.14135, algorithm 4); `forward` is the output of attention. With
    `place` these are the gradients that one part of the keys makes: `forward`
    and `lse` are those over all keys.
  }];
  let results = (outs Variadic<NN_Float>:$outputs);
  let assemblyFormat = [{
    $grad `,` $qkv `forward` $forward `lse` $lse (`rng` $rng^ `layer` $layer `micro_batch` $micro_batch)?
    (`part` $part^)? (`place` $place^ `turn` $turn)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(NN_Localize.declaration, NN_ModelFlops.declaration);
}

def NN_AttentionJoinOp : NN_NonDifferentiableOp<"attention_join",
    (ins NN_Float:$left, NN_F32:$left_lse, NN_Float:$right, NN_F32:$right_lse)> {
  let summary = "The output of nn.attention over all keys from those of two parts.";
  let description = [{
    output = exp(left_lse - lse) left + exp(right_lse - lse) right, head by head,
    with lse = log(exp(left_lse) + exp(right_lse)), which nn.log_add_exp gives.
    The query sees a key of one part at least.
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
