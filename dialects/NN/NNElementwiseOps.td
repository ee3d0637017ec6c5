//===- NNElementwiseOps.td - Element-wise operations -------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Element-wise operations, dropout and operations that only move elements. This
// file uses the classes of NNOps.td, which includes it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_ELEMENTWISEOPS
#define HEDDLE_DIALECTS_NN_ELEMENTWISEOPS

def NN_MapOp : NN_ComputeOp<"map",
    (ins Variadic<NN_Float>:$inputs, OptionalAttr<NN_FunctionAttr>:$function),
    [NN_Elementwise, IsolatedFromAbove]> {
  let summary = "Applies a scalar function to each element of tensors.";
  let description = [{
    The inputs are tensors of the results' shape, and tensors of rank 0, whose
    value is used for all elements.

    ```mlir
    %y = nn.map (%a = %x, %s = %scale) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32> {
      %0 = arith.mulf %a, %s : f64
      nn.return %0 : f64
    }
    ```

    The body computes one element of each result. Its values are real numbers,
    written as f64; generated code computes them in f32, whatever the tensors
    hold, and the reference evaluation in f64. The body may contain
    arith.constant, addf, subf, mulf, divf, negf, maximumf, minimumf, cmpf and
    select, math.absf, exp, log, sqrt, rsqrt, tanh and erf, and nn.logistic.

    A named function is written without its body; the verifier checks that the
    body is the one of the name. The names are gelu, gelu_tanh, relu and silu,
    and with the suffix `_grad` their derivatives, whose arguments are the
    gradients of the results and then the arguments of the function.

    ```mlir
    %y = nn.map gelu_tanh(%x) : tensor<4x8xbf16>
    %d = nn.map gelu_tanh_grad(%g, %x) : tensor<4x8xbf16>
    ```
  }];
  let results = (outs Variadic<NN_Float>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$function,
                                 "::mlir::ValueRange":$inputs)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    bool isLinearIn(::mlir::OpOperand &operand);
  }];
}

def NN_LogisticOp : NN_Op<"logistic", [Pure, SameOperandsAndResultType,
                                       HasParent<"MapOp">]> {
  let summary = "1 / (1 + exp(-x)) for a scalar in the body of nn.map.";
  let description = [{
    It is an operation because the derivative of an expression with exp would
    overflow for large negative x.

    ```mlir
    %y = nn.logistic %x : f64
    ```
  }];
  let arguments = (ins F64:$x);
  let results = (outs F64:$y);
  let assemblyFormat = "$x attr-dict `:` type($y)";
}

class NN_BinaryOp<string mnemonic, string what, list<Trait> traits = []>
    : NN_ComputeOp<mnemonic, (ins NN_Float:$lhs, NN_Float:$rhs),
                   !listconcat([SameOperandsAndResultType, NN_Elementwise],
                               traits)> {
  let summary = what;
  let results = (outs NN_Float:$output);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($output)";
}

def NN_AddOp : NN_BinaryOp<"add", "out = lhs + rhs, element by element"> {
  let description = [{
    Operands and result have the same shape.

    ```mlir
    %y = nn.add %a, %b : tensor<4x8xf32>
    ```
  }];
  let extraClassDeclaration = NN_Ties.declaration;
}
def NN_MulOp : NN_BinaryOp<"mul", "out = lhs * rhs, element by element"> {
  let description = [{
    Operands and result have the same shape.

    ```mlir
    %y = nn.mul %a, %b : tensor<4x8xf32>
    ```
  }];
  let extraClassDeclaration = NN_LinearInEach.declaration;
}

def NN_CastOp : NN_ComputeOp<"cast", (ins NN_Float:$input),
                             [NN_Elementwise]> {
  let summary = "Converts the element type; to bf16 and f16 with rounding to nearest even.";
  let description = [{
    ```mlir
    %y = nn.cast %x : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    ```
  }];
  let extraClassDeclaration = NN_LinearInEach.declaration;
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_ReshapeOp : NN_ComputeOp<"reshape", (ins NN_Float:$input), [NN_Rowwise]> {
  let summary = "Splits the last dimension into two, or merges the last two into one.";
  let description = [{
    The elements keep their row-major order. Norms of heads use it: it splits
    [B, T, heads * D] into [B, T, heads, D], so that a reduction over the last
    dimension is over the features of one head, and merges them again.

    ```mlir
    %heads = nn.reshape %x : (tensor<2x16x768xf32>) -> tensor<2x16x12x64xf32>
    ```
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(NN_LinearInEach.declaration, [{
    /// Whether the operation splits the last dimension, rather than merges the
    /// last two.
    bool splits();
  }]);
}

def NN_SliceOp : NN_NonDifferentiableOp<"slice",
    (ins NN_Any:$input, Optional<Index>:$first, I64Attr:$dim,
         DefaultValuedAttr<I64Attr, "0">:$offset)> {
  let summary = "out[.., i, ..] = x[.., i + offset + first, ..] along dimension `dim`";
  let description = [{
    ```mlir
    %k = nn.slice %qkv dim 2 {offset = 768 : i64}
        : (tensor<2x16x2304xf32>) -> tensor<2x16x768xf32>
    ```

    A rank takes its shard of a dimension that it holds whole, with `first`
    computed from the rank. The last shard may then reach beyond the end of x;
    indices beyond the end read the last element.
  }];
  let results = (outs NN_Any:$output);
  let assemblyFormat = [{
    $input `dim` $dim (`first` $first^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_ConcatOp : NN_NonDifferentiableOp<"concat", (ins Variadic<NN_Any>:$inputs, I64Attr:$dim)> {
  let summary = "The inputs one after the other along dimension `dim`.";
  let description = [{
    ```mlir
    %qkv = nn.concat %q, %k, %v dim 2
        : (tensor<2x16x768xf32>, tensor<2x16x768xf32>, tensor<2x16x768xf32>) -> tensor<2x16x2304xf32>
    ```
  }];
  let results = (outs NN_Any:$output);
  let assemblyFormat = [{
    $inputs `dim` $dim attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_DropoutOp : NN_ComputeOp<"dropout",
    (ins NN_Float:$input, NN_Rng:$rng, Index:$layer, Index:$micro_batch,
         Variadic<Index>:$part, F64Attr:$p, I32Attr:$site,
         OptionalAttr<DenseI64ArrayAttr>:$parts,
         OptionalAttr<DenseI64ArrayAttr>:$inner), [NN_Elementwise]> {
  let summary = "Dropout: out = keep ? x / (1 - p) : 0, with counter-based random bits.";
  let description = [{
    ```mlir
    %y = nn.dropout %x rng %rng layer %layer micro_batch %mb {p = 0.1 : f64, site = 7 : i32}
        : (tensor<4x8xf32>, tensor<4xi32>, index, index) -> tensor<4x8xf32>
    ```

    The random bits are those of Philox4x32-10 (Salmon et al., SC11), so that
    they do not depend on how the batch is split. `rng` holds the seed (low word,
    high word), the step, and 0. Let i be the index of an element in the tensor
    of the global batch: i = micro_batch * n + its row-major index, n the number
    of elements of x. The element uses word i mod 4 of the Philox block with key
    (seed low, seed high) and counter (low(i / 4), high(i / 4), step,
    site + layer * 0x9E3779B9). It is kept if the word, unsigned, is at least
    floor(p * 2^32). The gradient is the same operation applied to the gradient.

    With one number in `part`, x is part number `part` of the `parts` parts into
    which ranks split one dimension of the micro-batch's tensor. `inner` is the
    number of elements of x over that dimension and the inner ones. The element
    with row-major index j in x is element
    (j / inner * parts + part) * inner + j mod inner of the micro-batch's
    tensor, and n is `parts` times the number of elements of x. With several
    numbers, several dimensions are split; they are listed from the outermost to
    the innermost.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input `rng` $rng `layer` $layer `micro_batch` $micro_batch
    (`part` $part^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_Localize.declaration;
}

#endif // HEDDLE_DIALECTS_NN_ELEMENTWISEOPS
