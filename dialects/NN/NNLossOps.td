//===- NNLossOps.td - What makes the loss ------------------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A part of NNOps.td, whose classes it uses.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_LOSS_OPS
#define HEDDLE_DIALECTS_NN_LOSS_OPS

def NN_CrossEntropyOp : NN_ComputeOp<"cross_entropy",
    (ins NN_Float:$logits, NN_Ids:$labels,
         DefaultValuedAttr<F64Attr, "0.0">:$smoothing), [NN_Rowwise]> {
  let summary = "losses[...] = lse[...] - logits[..., label], lse the log-sum-exp.";
  let description = [{
    A negative label (-100 in Hugging Face's convention) gives loss 0 and no
    gradient. `smoothing` is the share of a label that all columns have alike
    (Szegedy et al., arXiv 1512.00567, 7): in the label's logit's place stands
    (1 - smoothing) logits[..., label] + smoothing mean(logits[..., :]).
  }];
  let results = (outs NN_F32:$losses, NN_F32:$lse);
  let assemblyFormat = [{
    $logits `,` $labels attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(
      NN_Localize.declaration, NN_StaysF32<>.declaration, NN_DomainOfFirst.declaration);
}

def NN_CrossEntropyGradOp : NN_NonDifferentiableOp<"cross_entropy_grad",
    (ins NN_Float:$logits, NN_Ids:$labels, NN_F32:$lse, NN_F32:$grad,
         Optional<Index>:$first, OptionalAttr<I64Attr>:$vocab,
         DefaultValuedAttr<F64Attr, "0.0">:$smoothing), [NN_Rowwise]> {
  let summary = "out[..., v] = grad[...] * (exp(logits[..., v] - lse) - (v == label)).";
  let description = [{
    `grad` is the gradient of the losses. Where a label is negative out is 0.
    With `smoothing` (1 - smoothing) (v == label) + smoothing / vocab stands in
    the place of v == label.
    With `first` these are columns `first` and following of a larger tensor,
    of which `vocab` exist: those beyond are 0.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $logits `,` $labels `,` $lse `,` $grad (`first` $first^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(
      NN_Localize.declaration, NN_Ties.declaration);
}

def NN_CrossEntropyPartOp : NN_NonDifferentiableOp<"cross_entropy_part",
    (ins NN_Float:$logits, NN_Ids:$labels, Index:$first, I64Attr:$vocab,
         DefaultValuedAttr<F64Attr, "0.0">:$smoothing), [NN_Rowwise]> {
  let summary = "What nn.cross_entropy needs of one part of the vocabulary.";
  let description = [{
    The logits are columns `first` and following of a larger tensor, of which
    `vocab` exist: those beyond are not read. `lse` is the log-sum-exp over the
    columns of this part, the lowest f32 where there are none; `label_logit` is
    the label's logit, 0 where the label is negative or in another part; with
    `smoothing` (1 - smoothing) of it and smoothing / vocab of each logit here.
  }];
  let results = (outs NN_F32:$lse, NN_F32:$label_logit);
  let assemblyFormat = [{
    $logits `,` $labels `first` $first attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(
      NN_StaysF32<>.declaration, NN_DomainOfFirst.declaration);
}

def NN_CrossEntropyJoinOp : NN_NonDifferentiableOp<"cross_entropy_join",
    (ins NN_F32:$lses, NN_F32:$label_logit, NN_Ids:$labels)> {
  let summary = "The results of nn.cross_entropy from those of the vocabulary's parts.";
  let description = [{
    `lses` has those of the n parts one after the other along the first
    dimension: [n * B, ...] where `labels` is [B, ...]. `label_logit` is the sum
    over the parts. lse is the log-sum-exp over the parts, losses = lse -
    label_logit, 0 where the label is negative.
  }];
  let results = (outs NN_F32:$losses, NN_F32:$lse);
  let assemblyFormat = [{
    $lses `,` $label_logit `,` $labels attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_StaysF32<>.declaration;
}

def NN_SumOp : NN_NonDifferentiableOp<"sum",
    (ins NN_F32:$input, Optional<NN_F32>:$weights, Optional<NN_F32>:$init),
    [NN_InForward, AttrSizedOperandSegments]> {
  let summary = "out = init + sum of all elements, each times its weight: rank 0.";
  let description = [{
    The loss is such a sum, of each token's loss times its weight in the mean of
    the global batch (nn.token_weights). Summed in double precision.
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = [{
    $input (`weights` $weights^)? (`init` $init^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(
      NN_StaysF32<>.declaration, NN_SumsOntoInit.declaration);
}

def NN_CountLabelsOp : NN_NonDifferentiableOp<"count_labels",
    (ins NN_Ids:$labels, Optional<NN_F32>:$weights)> {
  let summary = "The sum of the weights of labels: of rank 0.";
  let description = [{
    A label that is not negative weighs `weights[...]`, without them 1; a
    negative one weighs nothing. Over the global batch this is what the sum of
    the losses is divided by.
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = [{
    $labels (`weights` $weights^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_StaysF32<>.declaration;
}

def NN_LossScaleOp : NN_NonDifferentiableOp<"loss_scale", (ins NN_F32:$count)> {
  let summary = "1 / count, and 0 where nothing counts; of rank 0.";
  let results = (outs NN_F32:$output);
  let assemblyFormat = "$count attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = NN_StaysF32<>.declaration;
}

def NN_TokenWeightsOp : NN_NonDifferentiableOp<"token_weights",
    (ins NN_Ids:$labels, NN_F32:$scale, Optional<NN_F32>:$weights),
    [NN_Elementwise]> {
  let summary = "What each token's loss weighs in the loss of the global batch.";
  let description = [{
    out = scale * weights where the label is not negative, else 0; weights that
    are missing are 1. It is the gradient of the losses, too.
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = [{
    $labels `scale` $scale (`weights` $weights^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_StaysF32<>.declaration;
}

def NN_TakeRowOp : NN_NonDifferentiableOp<"take_row",
    (ins NN_Float:$input, NN_Ids:$position), [NN_InForward]> {
  let summary = "out[b, 0, c] = x[b, position, c]; `position` is a rank-0 tensor.";
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input `[` $position `]` attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_BytesOf.declaration;
}

#endif // HEDDLE_DIALECTS_NN_LOSS_OPS
