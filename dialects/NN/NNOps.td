//===- NNOps.td - The operations of neural networks --------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shapes: B batch, T sequence, C features; `...` any leading dimensions.
// Compute tensors are f32, bf16 or f16; statistics, losses and gradients of
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

/// A computation: pure, with its whole contract and what it is
/// (NNInterfaces.td), and, from the shard phase on, the sharding of each result.
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

/// A computation outside what is differentiated: a gradient, the optimizer,
/// the ends of the forward pass. It says why it has no derivative.
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

/// What an operation declares that overrides `localize` of NN_ShardingRuleOp.
def NN_Localize {
  string declaration = [{
    void localize(const ::heddle::dist::Split &split);
  }];
}

/// What an operation declares whose results stay f32: all, or those that the
/// condition on `result`, a result's number, names.
class NN_StaysF32<string condition = "true"> {
  string declaration = "bool staysF32(unsigned result) { return " # condition #
                       "; }\n";
}

/// What an operation declares that is linear in each operand.
def NN_LinearInEach {
  string declaration = "bool isLinearIn(::mlir::OpOperand &) { return true; }\n";
}

/// What an operation declares that can add its sum to the operand `init`.
def NN_SumsOntoInit {
  string declaration = [{
    ::llvm::SmallVector<::heddle::nn::Init> getSums() {
      return {{getInitMutable(), getOutput()}};
    }
  }];
}

/// What an operation declares with model FLOPs (NN_CostOp).
def NN_ModelFlops {
  string declaration = "double getModelFlops();\n";
}

/// What an operation declares that does not use all of an operand or result.
def NN_BytesOf {
  string declaration = "double getBytesOf(::mlir::Value value);\n";
}

/// What an operation declares whose rows are those of its first operand.
def NN_DomainOfFirst {
  string declaration = [{
    ::llvm::ArrayRef<int64_t> getDomain() {
      return ::llvm::cast<::mlir::RankedTensorType>(
          (*this)->getOperand(0).getType()).getShape();
    }
  }];
}

/// What an operation declares that overrides `getTies` of NN_PropertiesOp.
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
    With `first` the table is a part of a larger one, from row `first` on: ids
    of other parts give zeros, so that the sum over the parts is the whole.
    Where the id is `padding` the table gets no gradient, as with `padding_idx`
    of PyTorch's embedding.
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
    The order of the sum is that of the ids: row-major. `init` missing: zero.
    With `first` the output is a part of a larger table, from row `first` on:
    ids of other parts add nothing, and neither does the id `padding`. Summed
    in f32, rounded once.
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
  let summary = "out[b, t] = t + offset, plus `first` where it is given";
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
    Before a product whose weight has its inputs in another order than the
    values that come in: that of their groups, in weights that GPTQ made with
    `desc_act` (Frantar et al., arXiv 2210.17323, "act-order" in its code). A
    number in `order` that is no place of a row gives NaN.
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
    The weight is [in, out]; with `transposed` it is stored [out, in]. The sum
    over i begins with `init`, if there is one: a product of the features before.
    Summed in f32, rounded once. A bias or an init, not both.
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
    What nn.linear does with a bias of its own: for a product whose parts are
    added first.
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
    With `transposed` the result is stored [out, in]. Summed in f32, rounded
    once.
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
  let summary = "out[c] = init[c] + sum over rows of x[..., c]: a bias's gradient.";
  let description = [{ Summed in f32, rounded once. }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input (`init` $init^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_SumsOntoInit.declaration;
}

include "dialects/NN/NNPackedOps.td"

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

def NN_LayerNormOp : NN_ComputeOp<"layer_norm",
    (ins NN_Float:$input, NN_Float:$weight, NN_Float:$bias, F64Attr:$eps), [NN_Rowwise]> {
  let summary = "y = (x - mean) * rstd * w + b over the last dimension.";
  let description = [{
    mean and rstd = 1 / sqrt(variance + eps) are f32 and have the leading
    dimensions of x; the variance is the biased one.
  }];
  let results = (outs NN_Float:$output, NN_F32:$mean, NN_F32:$rstd);
  let assemblyFormat = [{
    $input `,` $weight `,` $bias attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_StaysF32<"result > 0">.declaration;
}

def NN_LayerNormGradInputOp : NN_NonDifferentiableOp<"layer_norm_grad_input",
    (ins NN_Float:$grad, NN_Float:$input, NN_Float:$weight, NN_F32:$mean,
         NN_F32:$rstd), [NN_Rowwise]> {
  let summary = "Gradient of layer_norm for its input.";
  let description = [{
    g = grad * w, xh = (x - mean) * rstd:
    dx = rstd * (g - mean(g) - xh * mean(g * xh)), means over the last dimension.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $grad `,` $input `,` $weight `,` $mean `,` $rstd attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_LayerNormGradWeightOp : NN_NonDifferentiableOp<"layer_norm_grad_weight",
    (ins NN_Float:$grad, NN_Float:$input, NN_F32:$mean, NN_F32:$rstd,
         Optional<NN_Float>:$weight_init, Optional<NN_Float>:$bias_init),
    [AttrSizedOperandSegments]> {
  let summary = "Gradients of layer_norm for weight and bias: sums over rows.";
  let description = [{
    weight_grad[c] = init + sum of grad * (x - mean) * rstd,
    bias_grad[c] = init + sum of grad. Summed in f32, rounded once.
  }];
  let results = (outs NN_Float:$weight_grad, NN_Float:$bias_grad);
  let assemblyFormat = [{
    $grad `,` $input `,` $mean `,` $rstd (`weight_init` $weight_init^)? (`bias_init` $bias_init^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::heddle::nn::Init> getSums() {
      return {{getWeightInitMutable(), getWeightGrad()},
              {getBiasInitMutable(), getBiasGrad()}};
    }
  }];
}

def NN_RmsNormOp : NN_ComputeOp<"rms_norm",
    (ins NN_Float:$input, NN_Float:$weight, F64Attr:$eps), [NN_Rowwise]> {
  let summary = "y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps), over the last dimension.";
  let results = (outs NN_Float:$output, NN_F32:$rstd);
  let assemblyFormat = [{
    $input `,` $weight attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_StaysF32<"result > 0">.declaration;
}

def NN_RmsNormGradInputOp : NN_NonDifferentiableOp<"rms_norm_grad_input",
    (ins NN_Float:$grad, NN_Float:$input, NN_Float:$weight, NN_F32:$rstd), [NN_Rowwise]> {
  let summary = "dx = rstd * (g - xh * mean(g * xh)), g = grad * w, xh = x * rstd.";
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $grad `,` $input `,` $weight `,` $rstd attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_RmsNormGradWeightOp : NN_NonDifferentiableOp<"rms_norm_grad_weight",
    (ins NN_Float:$grad, NN_Float:$input, NN_F32:$rstd, Optional<NN_Float>:$init)> {
  let summary = "weight_grad[c] = init + sum over rows of grad * x * rstd.";
  let description = [{ Summed in f32, rounded once. }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $grad `,` $input `,` $rstd (`init` $init^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_SumsOntoInit.declaration;
}

include "dialects/NN/NNAttentionOps.td"
include "dialects/NN/NNCacheOps.td"
include "dialects/NN/NNLossOps.td"

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

def NN_FillOp : NN_NonDifferentiableOp<"fill", (ins F64Attr:$value), [NN_Rematerializable]> {
  let summary = "A tensor of one value.";
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $value attr-dict `:`
    functional-type(operands, results)
  }];
}

def NN_SquareSumsOp : NN_NonDifferentiableOp<"square_sums", (ins NN_Float:$input)> {
  let summary = "out[b] = sum of squares of the elements of block b.";
  let description = [{
    Blocks are 65,536 elements in row-major order, the last one what is left.
    Each is summed in double precision. The first half of a norm that all
    threads make together (see nn.global_norm).
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = [{
    $input attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat([{
    /// Elements of a block.
    static constexpr int64_t blockSize = 65536;
  }], NN_Localize.declaration, NN_StaysF32<>.declaration);
}

def NN_GlobalNormOp : NN_NonDifferentiableOp<"global_norm",
    (ins Variadic<NN_Float>:$inputs, UnitAttr:$summed)> {
  let summary = "sqrt of the sum of squares of all elements of all inputs: rank 0.";
  let description = [{
    Summed in double precision, in an order that does not depend on the number
    of threads. With `summed` the inputs are sums of squares already: out is the
    square root of the sum of their elements.
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

def NN_UpdateOp : NN_NonDifferentiableOp<"update",
    (ins StrAttr:$rule, NN_F32:$parameter, NN_Float:$gradient,
         Variadic<NN_F32>:$states, Variadic<NN_F32>:$inputs,
         Optional<NN_F32>:$condition),
    [NN_Elementwise, NN_Updates, AttrSizedOperandSegments,
     IsolatedFromAbove]> {
  let summary = "One update of parameters and of the optimizer's states, element by element.";
  let description = [{
    The body computes one element of the new parameter and of each new state
    from those of the parameter, the gradient, the states and the inputs, in this
    order. It is written as that of nn.map. Inputs are tensors of the parameter's
    shape, and tensors of rank 0, which all elements read: the learning rate,
    what the gradient is multiplied by. `rule` says whose rule it is, for people.

    The results are the new parameter and the new states, which take the place
    of the old ones; one more is the new parameter in compute precision. Where
    `condition`, of rank 0, is 0 parameter and states stay what they are.

    ```mlir
    %p1, %m1 = nn.update "momentum" %p, %g states(%m) with(%lr) : (...) -> (...) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %0 = arith.addf %c, %b : f64
      %1 = arith.mulf %d, %0 : f64
      %2 = arith.subf %a, %1 : f64
      nn.return %2, %0 : f64, f64
    }
    ```
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
    /// The new parameter in compute precision; null where there is none.
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
  let summary = "The next power of a factor, and what it lacks of 1.";
  let description = [{
    next = factor * power, and power where `condition` is 0; correction =
    1 - next, rounded to f32: an average that began with zeros is divided by it.
    All are of rank 0.
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

#endif // HEDDLE_DIALECTS_NN_OPS
