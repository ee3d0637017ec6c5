//===- NNLossOps.td - The loss of a model ------------------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loss: cross-entropy, its gradient, its forms for a vocabulary that ranks
// split, and the weights of tokens in the mean over the global batch. This file
// uses the classes of NNOps.td, which includes it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_LOSS_OPS
#define HEDDLE_DIALECTS_NN_LOSS_OPS

def NN_CrossEntropyOp : NN_ComputeOp<"cross_entropy",
    (ins NN_Float:$logits, NN_Ids:$labels,
         DefaultValuedAttr<F64Attr, "0.0">:$smoothing), [NN_Rowwise]> {
  let summary = "losses[...] = lse[...] - logits[..., label], lse the log-sum-exp.";
  let description = [{
    `logits` are [..., V], `labels`, `losses` and `lse` [...]. The log-sum-exp is
    over the V columns.

    ```mlir
    %losses, %lse = nn.cross_entropy %logits, %labels
        : (tensor<2x16x50257xf32>, tensor<2x16xi32>) -> (tensor<2x16xf32>, tensor<2x16xf32>)
    ```

    A negative label (-100 in Hugging Face's convention) gives loss 0 and no
    gradient. `smoothing` is label smoothing (Szegedy et al., arXiv 1512.00567,
    section 7): logits[..., label] is replaced by
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
    `logits` and out are [..., V], `labels`, `lse` and `grad` [...]; `lse` is the
    result of nn.cross_entropy and `grad` the gradient of its losses.

    ```mlir
    %d = nn.cross_entropy_grad %logits, %labels, %lse, %g
        : (tensor<2x16x50257xf32>, tensor<2x16xi32>, tensor<2x16xf32>, tensor<2x16xf32>)
        -> tensor<2x16x50257xf32>
    ```

    out is 0 where the label is negative. With `smoothing`, (v == label) is
    replaced by (1 - smoothing) (v == label) + smoothing / vocab. If ranks split
    the vocabulary, the columns of `logits` are columns `first` and following of
    the `vocab` columns of the whole tensor; out is 0 in columns from `vocab` on,
    which are padding.
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
  let summary = "Computes nn.cross_entropy over one rank's shard of the vocabulary.";
  let description = [{
    `logits` are [..., n], columns `first` and following of the `vocab` columns
    of the whole tensor. `labels`, `lse` and `label_logit` are [...].

    ```mlir
    %lse, %logit = nn.cross_entropy_part %logits, %labels first %first {vocab = 50257 : i64}
        : (tensor<2x16x25129xf32>, tensor<2x16xi32>, index) -> (tensor<2x16xf32>, tensor<2x16xf32>)
    ```

    `lse` is the log-sum-exp over the columns of this shard, the lowest f32 if
    the shard has none; columns from `vocab` on are padding and are not read.
    `label_logit` is the label's logit, 0 if the label is negative or in another
    shard. With `smoothing` it is (1 - smoothing) times that logit plus
    smoothing / vocab times the sum of the shard's logits.
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
  let summary = "Combines the results of nn.cross_entropy_part over all shards.";
  let description = [{
    `labels`, `label_logit`, `losses` and `lse` are [B, ...]. `lses` is
    [n * B, ...]: the `lse` of the n shards, all-gathered along the first
    dimension. `label_logit` is the sum (all-reduce) of that of all shards.

    ```mlir
    %losses, %lse = nn.cross_entropy_join %lses, %logit, %labels
        : (tensor<4x16xf32>, tensor<2x16xf32>, tensor<2x16xi32>) -> (tensor<2x16xf32>, tensor<2x16xf32>)
    ```

    lse is the log-sum-exp of the shards' values. losses = lse - label_logit, 0
    where the label is negative.
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
  let summary = "out = init + sum over all elements of input * weights";
  let description = [{
    `weights` has the shape of `input`, `init` and out have rank 0. Without
    `weights` they are 1, without `init` it is 0.

    ```mlir
    %loss = nn.sum %losses weights %w : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<f32>
    ```

    The loss of a step is such a sum, with each token's weight in the mean over
    the global batch (nn.token_weights). The sum is computed in double precision.
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
  let summary = "out = sum over the labels that count of their weights";
  let description = [{
    `weights` has the shape of `labels` and is 1 without it; out has rank 0.

    ```mlir
    %n = nn.count_labels %labels : (tensor<2x16xi32>) -> tensor<f32>
    ```

    A label counts if it is not negative. The loss is the sum of the tokens'
    weighted losses divided by this sum over the global batch.
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
  let summary = "out = 1 / count, and 0 where count is 0";
  let description = [{
    `count` is the result of nn.count_labels, summed over the global batch. Both
    have rank 0.

    ```mlir
    %scale = nn.loss_scale %n : (tensor<f32>) -> tensor<f32>
    ```
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = "$count attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = NN_StaysF32<>.declaration;
}

def NN_TokenWeightsOp : NN_NonDifferentiableOp<"token_weights",
    (ins NN_Ids:$labels, NN_F32:$scale, Optional<NN_F32>:$weights),
    [NN_Elementwise]> {
  let summary = "out[...] = scale * weights[...] where the label counts, otherwise 0";
  let description = [{
    `labels`, `weights` and out have the same shape, `scale` has rank 0. Without
    `weights` they are 1.

    ```mlir
    %w = nn.token_weights %labels scale %scale : (tensor<2x16xi32>, tensor<f32>) -> tensor<2x16xf32>
    ```

    A label counts if it is not negative. The result is the weight of each
    token's loss in the loss of the global batch, and so also the gradient of
    the loss with respect to the tokens' losses.
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
  let summary = "out[b, 0, c] = x[b, position, c]";
  let description = [{
    x is [B, T, C], out [B, 1, C]; `position` is an i32 tensor of rank 0.
    Programs for inference use it to compute logits for one token only.

    ```mlir
    %y = nn.take_row %x[%p] : (tensor<1x16x768xf32>, tensor<i32>) -> tensor<1x1x768xf32>
    ```
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input `[` $position `]` attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_BytesOf.declaration;
}

#endif // HEDDLE_DIALECTS_NN_LOSS_OPS
