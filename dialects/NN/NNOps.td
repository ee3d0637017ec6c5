//===- NNOps.td - The operations of neural networks --------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The computations of the nn dialect. This file defines the operations of
// embeddings, linear layers and the optimizer. It includes NN...Ops.td, which
// define the other operations. Letters of shapes: B is the batch, T the
// sequence, C or D features; `...` are any leading dimensions. Tensors of
// computations are f32, bf16 or f16; statistics, losses and gradients of
// parameters are f32.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_OPS
#define HEDDLE_DIALECTS_NN_OPS

include "dialects/NN/NNModelOps.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def NN_Float : StaticShapeTensorOf<[F32, BF16, F16]>;
def NN_F32 : StaticShapeTensorOf<[F32]>;
def NN_F64 : StaticShapeTensorOf<[F64]>;
def NN_Ids : StaticShapeTensorOf<[I32]>;
def NN_Rng : StaticShapeTensorOf<[I32]>;
def NN_Any : StaticShapeTensorOf<[F32, BF16, F16, I32]>;

/// A pure computation with a derivative, a cost, properties and a sharding rule
/// (NNInterfaces.td). From the shard phase on, `shardings` is the sharding of
/// each result.
class NN_ComputeOp<string mnemonic, dag args, list<Trait> traits = []>
    : NN_Op<mnemonic, !listconcat([
        Pure,
        DeclareOpInterfaceMethods<NN_DifferentiableOp,
          ["buildGradient"]>,
        DeclareOpInterfaceMethods<NN_CostOp, ["getFlops"]>,
        NN_PropertiesOp,
        DeclareOpInterfaceMethods<NN_ShardingRuleOp>], traits)> {
  let arguments = !con(args, (ins OptionalAttr<ArrayAttr>:$shardings));
}

/// A pure computation without a derivative: an operation that computes
/// gradients, is a part of the optimizer, or is for inference only. The
/// operation's method getNotDifferentiableReason gives the reason, which an
/// error message quotes if a model needs the derivative.
class NN_NonDifferentiableOp<string mnemonic, dag args, list<Trait> traits = []>
    : NN_Op<mnemonic, !listconcat([
        Pure,
        DeclareOpInterfaceMethods<NN_DifferentiableOp,
          ["getNotDifferentiableReason"]>,
        DeclareOpInterfaceMethods<NN_CostOp, ["getFlops"]>,
        NN_PropertiesOp,
        DeclareOpInterfaceMethods<NN_ShardingRuleOp>], traits)> {
  let arguments = !con(args, (ins OptionalAttr<ArrayAttr>:$shardings));
}

// The following definitions are C++ declarations that several operations add to
// their `extraClassDeclaration`.

/// The operation overrides `localize` of NN_ShardingRuleOp.
def NN_Localize {
  string declaration = [{
    void localize(const ::heddle::dist::Split &split);
  }];
}

/// Some results of the operation stay f32 in every compute precision.
/// `condition` is a C++ expression that is true if the result with the index
/// `result` stays f32.
class NN_StaysF32<string condition = "true"> {
  string declaration = "bool staysF32(unsigned result) { return " # condition #
                       "; }\n";
}

/// The operation is linear in each operand.
def NN_LinearInEach {
  string declaration = "bool isLinearIn(::mlir::OpOperand &) { return true; }\n";
}

/// The result of the operation is a sum, which the operation can add to the
/// optional operand `init`.
def NN_SumsOntoInit {
  string declaration = [{
    ::llvm::SmallVector<::heddle::nn::Init> getSums() {
      return {{getInitMutable(), getOutput()}};
    }
  }];
}

/// The operation overrides getModelFlops of NN_CostOp, because its
/// floating-point operations count for model FLOPs utilization.
def NN_ModelFlops {
  string declaration = "double getModelFlops();\n";
}

/// The operation overrides getBytesOf of NN_CostOp, because it reads or writes
/// only a part of some operand or result.
def NN_BytesOf {
  string declaration = "double getBytesOf(::mlir::Value value);\n";
}

/// The rows that a row-wise operation computes one by one (its domain,
/// NN_PropertiesOp) are the rows of its first operand.
def NN_DomainOfFirst {
  string declaration = [{
    ::llvm::ArrayRef<int64_t> getDomain() {
      return ::llvm::cast<::mlir::RankedTensorType>(
          (*this)->getOperand(0).getType()).getShape();
    }
  }];
}

/// The operation overrides `getTies` of NN_PropertiesOp, which says which
/// results may be computed in place of which operands.
def NN_Ties {
  string declaration = "::llvm::SmallVector<::heddle::nn::Tie> getTies();\n";
}

//===----------------------------------------------------------------------===//
// Embeddings
//===----------------------------------------------------------------------===//

def NN_EmbeddingOp : NN_ComputeOp<"embedding",
    (ins NN_Float:$table, NN_Ids:$ids, Optional<Index>:$first,
         OptionalAttr<I64Attr>:$padding), [NN_Rowwise]> {
  let summary = "out[..., c] = table[ids[...], c]";
  let description = [{
    `table` is [V, C], `ids` [...], out [..., C].

    ```mlir
    %x = nn.embedding %table[%ids] : (tensor<50257x768xf32>, tensor<2x16xi32>) -> tensor<2x16x768xf32>
    ```

    If ranks split the vocabulary, the table is a shard of the whole table, from
    row `first` on. Ids of other shards give zeros, so that the sum (all-reduce)
    over the shards is the result. Positions with the id `padding` add nothing
    to the table's gradient, as with `padding_idx` of PyTorch's embedding.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $table `[` $ids `]` (`first` $first^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(NN_Localize.declaration,
                                         NN_BytesOf.declaration);
}

def NN_EmbeddingGradOp : NN_NonDifferentiableOp<"embedding_grad",
    (ins NN_Float:$grad, NN_Ids:$ids, Optional<NN_Float>:$init,
         Optional<Index>:$first, OptionalAttr<I64Attr>:$padding),
    [AttrSizedOperandSegments]> {
  let summary = "out[v, c] = init[v, c] + sum over ids[...] == v of grad[..., c]";
  let description = [{
    `grad` is [..., C], `ids` [...], `init` and out are [V, C]. Without `init` it
    is 0.

    ```mlir
    %d = nn.embedding_grad %g[%ids] init %sum
        : (tensor<2x16x768xf32>, tensor<2x16xi32>, tensor<50257x768xf32>) -> tensor<50257x768xf32>
    ```

    If ranks split the vocabulary, out is a shard of the whole table, from row
    `first` on; ids of other shards add nothing. The id `padding` adds nothing,
    too. The sum is in f32, in the row-major order of the ids, and is rounded
    once.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $grad `[` $ids `]` (`init` $init^)? (`first` $first^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(
      NN_Localize.declaration, NN_SumsOntoInit.declaration);
}

def NN_PositionsOp : NN_ComputeOp<"positions",
    (ins Optional<Index>:$first, DefaultValuedAttr<I64Attr, "0">:$offset), [NN_Rematerializable]> {
  let summary = "out[b, t] = t + offset + first";
  let description = [{
    out is [B, T]. Without `first` it is 0.

    ```mlir
    %p = nn.positions {offset = 2 : i64} : () -> tensor<2x16xi32>
    ```

    `offset` is the position of a sequence's first token, which is 2 for OPT.
    `first` is the index of the rank's first token if ranks split the sequence.
  }];
  let results = (outs NN_Ids:$output);
  let assemblyFormat = [{
    (`first` $first^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_Localize.declaration;
}

def NN_ReorderOp : NN_NonDifferentiableOp<"reorder",
    (ins NN_Float:$input, NN_Ids:$order), [NN_InForward]> {
  let summary = "out[..., c] = x[..., order[c]]";
  let description = [{
    x and out are [..., C], `order` is [C].

    ```mlir
    %y = nn.reorder %x by %order : (tensor<1x16x768xf32>, tensor<768xi32>) -> tensor<1x16x768xf32>
    ```

    It permutes the inputs of a product whose quantized weight has its inputs in
    another order: GPTQ with `desc_act` sorts them by group (Frantar et al.,
    arXiv 2210.17323, "act-order" in its code). A value of `order` that is no
    valid index gives NaN.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input `by` $order attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

include "dialects/NN/NNElementwiseOps.td"

//===----------------------------------------------------------------------===//
// Linear
//===----------------------------------------------------------------------===//

def NN_LinearOp : NN_ComputeOp<"linear",
    (ins NN_Float:$input, NN_Float:$weight, Optional<NN_Float>:$bias,
         Optional<NN_Float>:$init, UnitAttr:$transposed),
    [AttrSizedOperandSegments]> {
  let summary = "out[..., o] = sum over i of x[..., i] w[i, o] + bias[o]";
  let description = [{
    x is [..., in], w [in, out] (with `transposed` stored [out, in]), `bias`
    [out], out [..., out].

    ```mlir
    %y = nn.linear %x, %w bias %b
        : (tensor<2x16x768xf32>, tensor<768x3072xf32>, tensor<3072xf32>) -> tensor<2x16x3072xf32>
    ```

    `init` [..., out] is the value that the sum over i begins with: the product
    of earlier inputs, if the inputs are computed in tiles. The sum is in f32
    and rounded once. There is at most one of `bias` and `init`.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input `,` $weight (`bias` $bias^)? (`init` $init^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_ModelFlops.declaration;
}

def NN_AddBiasOp : NN_ComputeOp<"add_bias",
    (ins NN_Float:$input, NN_Float:$bias), [NN_Rowwise]> {
  let summary = "out[..., o] = x[..., o] + bias[o]";
  let description = [{
    x and out are [..., C], `bias` is [C].

    ```mlir
    %y = nn.add_bias %x, %b : (tensor<2x16x768xf32>, tensor<768xf32>) -> tensor<2x16x768xf32>
    ```

    nn.linear with a bias does the same. This operation is for products whose
    partial sums must be reduced over ranks, or over tiles of the inputs, before
    the bias is added.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input `,` $bias attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_LinearGradWeightOp : NN_NonDifferentiableOp<"linear_grad_weight",
    (ins NN_Float:$input, NN_Float:$grad, Optional<NN_Float>:$init,
         UnitAttr:$transposed)> {
  let summary = "out[i, o] = init[i, o] + sum over rows of x[..., i] grad[..., o]";
  let description = [{
    x is [..., in], `grad` [..., out], `init` and out are [in, out]; with
    `transposed` they are stored [out, in]. Without `init` it is 0.

    ```mlir
    %dw = nn.linear_grad_weight %x, %g init %sum
        : (tensor<2x16x768xf32>, tensor<2x16x3072xf32>, tensor<768x3072xf32>) -> tensor<768x3072xf32>
    ```

    The sum is in f32 and rounded once.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input `,` $grad (`init` $init^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(
      NN_SumsOntoInit.declaration, NN_ModelFlops.declaration);
}

def NN_SumRowsOp : NN_NonDifferentiableOp<"sum_rows",
    (ins NN_Float:$input, Optional<NN_Float>:$init)> {
  let summary = "out[c] = init[c] + sum over rows of x[..., c]";
  let description = [{
    x is [..., C], `init` and out are [C]. Without `init` it is 0. It computes
    the gradient of a bias.

    ```mlir
    %db = nn.sum_rows %g init %sum : (tensor<2x16x768xf32>, tensor<768xf32>) -> tensor<768xf32>
    ```

    The sum is in f32 and rounded once.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input (`init` $init^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_SumsOntoInit.declaration;
}

include "dialects/NN/NNPackedOps.td"
include "dialects/NN/NNNormOps.td"
include "dialects/NN/NNAttentionOps.td"
include "dialects/NN/NNCacheOps.td"
include "dialects/NN/NNLossOps.td"

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

def NN_FillOp : NN_NonDifferentiableOp<"fill", (ins F64Attr:$value), [NN_Rematerializable]> {
  let summary = "A tensor whose elements all have the value `value`.";
  let description = [{
    ```mlir
    %x = nn.fill 1.000000e+00 : () -> tensor<768xf32>
    ```
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $value attr-dict `:`
    functional-type(operands, results)
  }];
}

def NN_SquareSumsOp : NN_NonDifferentiableOp<"square_sums", (ins NN_Float:$input)> {
  let summary = "out[b] = sum of squares of the elements of block b";
  let description = [{
    The input has any shape, out is [number of blocks].

    ```mlir
    %s = nn.square_sums %g : (tensor<131072xf32>) -> tensor<2xf32>
    ```

    A block has 65,536 elements in row-major order; the last one may be shorter.
    Each block is summed in double precision. This is the part of a norm that
    all threads compute in parallel; nn.global_norm with `summed` adds the
    blocks.
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = [{
    $input attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat([{
    /// The operation sums the squares of blocks of this many elements; each
    /// block gives one element of the result.
    static constexpr int64_t blockSize = 65536;
  }], NN_Localize.declaration, NN_StaysF32<>.declaration);
}

def NN_GlobalNormOp : NN_NonDifferentiableOp<"global_norm",
    (ins Variadic<NN_Float>:$inputs, UnitAttr:$summed)> {
  let summary = "out = sqrt of the sum of squares of all elements of all inputs";
  let description = [{
    The inputs have any shapes, out has rank 0. The norm of the gradients, for
    gradient clipping, is computed with it.

    ```mlir
    %n = nn.global_norm %s {summed} : (tensor<2xf32>) -> tensor<f32>
    ```

    With `summed` the inputs are sums of squares: out is the square root of the
    sum of their elements. The sum is computed in double precision, in an order
    that does not depend on the number of threads.
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = [{
    $inputs attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_StaysF32<>.declaration;
}

include "dialects/NN/NNSegmentOps.td"
include "dialects/NN/NNGroupOps.td"
include "dialects/NN/NNSignOps.td"

def NN_UpdateOp : NN_NonDifferentiableOp<"update",
    (ins StrAttr:$rule, NN_F32:$parameter, NN_Float:$gradient,
         Variadic<NN_F32>:$states, Variadic<NN_F32>:$inputs,
         Optional<NN_F32>:$condition),
    [NN_Elementwise, NN_Updates, AttrSizedOperandSegments,
     IsolatedFromAbove]> {
  let summary = "One optimizer update of parameters and states, element by element.";
  let description = [{
    The parameter, the gradient, the states and the results have the same shape,
    usually the flat shape of a bucket.

    ```mlir
    %p1, %m1 = nn.update "momentum" %p, %g states(%m) with(%lr) : (...) -> (...) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %0 = arith.addf %c, %b : f64
      %1 = arith.mulf %d, %0 : f64
      %2 = arith.subf %a, %1 : f64
      nn.return %2, %0 : f64, f64
    }
    ```

    The body has the form of nn.map's. Its arguments are one element of the
    parameter, the gradient, each state and each input, in this order; it
    returns one element of the new parameter and of each new state. Inputs are
    tensors of the parameter's shape, or tensors of rank 0 whose value is used
    for all elements, as the learning rate. `rule` names the optimizer for
    reports only.

    The results are the new parameter and the new states, which are computed in
    place of the old ones. An optional last result is the new parameter in
    compute precision. If `condition`, of rank 0, is 0, the parameter and the
    states do not change.
  }];
  let results = (outs Variadic<NN_Float>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $rule $parameter `,` $gradient (`states` `(` $states^ `)`)?
    (`with` `(` $inputs^ `)`)? (`if` $condition^)? attr-dict `:`
    functional-type(operands, results) $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = !strconcat([{
    ::mlir::Value getNewParameter() { return getOutputs()[0]; }
    ::mlir::ValueRange getNewStates() {
      return getOutputs().slice(1, getStates().size());
    }
    /// The result that is the new parameter in compute precision; null if there
    /// is none.
    ::mlir::Value getCopy() {
      size_t others = 1 + getStates().size();
      return getOutputs().size() > others ? getOutputs()[others]
                                          : ::mlir::Value();
    }
  }], NN_StaysF32<"result <= getStates().size()">.declaration,
      NN_Ties.declaration);
}

def NN_AdvancePowerOp : NN_NonDifferentiableOp<"advance_power",
    (ins NN_F64:$power, Optional<NN_F32>:$condition, F64Attr:$factor),
    [NN_Updates]> {
  let summary = "next = factor * power, correction = 1 - next";
  let description = [{
    All values have rank 0. Adam uses it for the bias correction 1 - beta^t.

    ```mlir
    %next, %c = nn.advance_power %power by 9.000000e-01 : (tensor<f64>) -> (tensor<f64>, tensor<f32>)
    ```

    If `condition` is 0, next = power. `correction` is rounded to f32.
  }];
  let results = (outs NN_F64:$next, NN_F32:$correction);
  let assemblyFormat = [{
    $power `by` $factor (`if` $condition^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(
      NN_StaysF32<>.declaration, NN_Ties.declaration);
}

def NN_CountUpdateOp : NN_NonDifferentiableOp<"count_update",
    (ins NN_F64:$count, Optional<NN_F32>:$condition), [NN_Updates]> {
  let summary = "next = count + 1";
  let description = [{
    All values have rank 0. A training step counts with it how often it has
    updated the parameters.

    ```mlir
    %next = nn.count_update %count if %c : (tensor<f64>, tensor<f32>) -> tensor<f64>
    ```

    If `condition` is 0, next = count.
  }];
  let results = (outs NN_F64:$next);
  let assemblyFormat = [{
    $count (`if` $condition^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(
      NN_StaysF32<>.declaration, NN_Ties.declaration);
}

def NN_TakeRateOp : NN_NonDifferentiableOp<"take_rate",
    (ins NN_F32:$rates, NN_F64:$count)> {
  let summary = "rate = rates[count mod K]";
  let description = [{
    `rates` is [K]; `count`, the number of updates before this step, and the
    result have rank 0.

    ```mlir
    %lr = nn.take_rate %rates[%count] : (tensor<2xf32>, tensor<f64>) -> tensor<f32>
    ```

    The host submits a step while K - 1 steps before it may still run, and does
    not know whether those steps will be skipped. It gives the learning rates of
    all K updates that may be next: the rate of the update after `u` updates is
    at index u mod K.
  }];
  let results = (outs NN_F32:$rate);
  let assemblyFormat = [{
    $rates `[` $count `]` attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_StaysF32<>.declaration;
}

def NN_AdvanceLossScaleOp : NN_NonDifferentiableOp<"advance_loss_scale",
    (ins NN_F32:$scale, NN_F32:$left, NN_F32:$steps, NN_F32:$ended,
         Variadic<NN_F32>:$checked, I64Attr:$window, I64Attr:$hysteresis,
         F64Attr:$least, UnitAttr:$consecutive), [NN_Updates]> {
  let summary = "The loss scale of the next step, and whether this step updates.";
  let description = [{
    All values have rank 0. `scale` is the factor by which this step has
    multiplied the gradient of the loss. The step overflows if a value of
    `checked`, such as the norm of the gradients, is infinite or NaN. The rule is
    that of DeepSpeed's `DynamicLossScaler`.

    ```mlir
    %scale1, %left1, %steps1, %ended1, %updates = nn.advance_loss_scale %scale, %left, %steps, %ended of(%norm)
        {window = 1000 : i64, hysteresis = 2 : i64, least = 1.0}
        : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
        -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
    ```

    | if the step | then |
    |---|---|
    | overflows, and `left` > 1 | `left` falls by 1 |
    | overflows, `left` is 1, and `scale` > `least` | `scale` is halved, to `least` or more |
    | overflows, `left` is 1, and `scale` is `least` | `ended` becomes 1 |
    | is one without overflow, after `window` others | `scale` doubles, and `left` is `hysteresis` again |

    `steps` counts the steps without overflow since the last overflow; after the
    scale has doubled, since the step that doubled it. With `consecutive`, each
    step without overflow sets `left` to `hysteresis`. If `window` is 0, the scale
    never doubles. It stays below 2^127, the largest power of two of an f32.

    If `ended` is not 0, nothing changes. `updates` is 1 if the step does not
    overflow and `ended` is 0; otherwise it is 0.
  }];
  let results = (outs NN_F32:$next_scale, NN_F32:$next_left, NN_F32:$next_steps,
                      NN_F32:$next_ended, NN_F32:$updates);
  let assemblyFormat = [{
    $scale `,` $left `,` $steps `,` $ended (`of` `(` $checked^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(
      NN_StaysF32<>.declaration, NN_Ties.declaration);
}

#endif // HEDDLE_DIALECTS_NN_OPS
