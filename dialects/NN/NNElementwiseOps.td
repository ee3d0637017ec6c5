//===- NNElementwiseOps.td - Element by element ------------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A part of NNOps.td, whose classes it uses.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_ELEMENTWISEOPS
#define HEDDLE_DIALECTS_NN_ELEMENTWISEOPS

def NN_MapOp : NN_ComputeOp<"map",
    (ins Variadic<NN_Float>:$inputs, OptionalAttr<NN_FunctionAttr>:$function),
    [NN_Elementwise, IsolatedFromAbove]> {
  let summary = "Element by element, a scalar function of tensors and scalars.";
  let description = [{
    The inputs are tensors of the results' shape, and tensors of rank 0, which
    all elements read. The body computes one element of each result. Its values
    are real numbers, written as f64: code computes them in f32, whatever the
    tensors hold, and the reference evaluation in f64. Known are arith.constant,
    addf, subf, mulf, divf, negf, maximumf, minimumf, cmpf, select; math.absf,
    exp, log, sqrt, rsqrt, tanh, erf; and nn.logistic.

    ```mlir
    %y = nn.map (%a = %x, %s = %scale) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32> {
      %0 = arith.mulf %a, %s : f64
      nn.return %0 : f64
    }
    ```

    A function that has a name is written without its body, which is held to
    the name: gelu, gelu_tanh, relu, silu, and with `_grad` their derivatives,
    of the gradients of the results and the arguments.

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
  let summary = "1 / (1 + exp(-x)), of a scalar in the body of nn.map.";
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

def NN_AddOp : NN_BinaryOp<"add", "out = lhs + rhs, of equal shapes"> {
  let extraClassDeclaration = NN_Ties.declaration;
}
def NN_MulOp : NN_BinaryOp<"mul", "out = lhs * rhs, of equal shapes"> {
  let extraClassDeclaration = NN_LinearInEach.declaration;
}

def NN_CastOp : NN_ComputeOp<"cast", (ins NN_Float:$input),
                             [NN_Elementwise]> {
  let summary = "Changes the element type; to bf16 and f16 rounds to nearest even.";
  let extraClassDeclaration = NN_LinearInEach.declaration;
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_ReshapeOp : NN_ComputeOp<"reshape", (ins NN_Float:$input), [NN_Rowwise]> {
  let summary = "The same elements in the same order: the last dimension as two, or the last two as one.";
  let description = [{
    The heads of [B, T, heads * D] as [B, T, heads, D], and back: what goes over
    the last dimension then goes over the features of one head.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(NN_LinearInEach.declaration, [{
    /// Whether the last dimension becomes two.
    bool splits();
  }]);
}

def NN_SliceOp : NN_NonDifferentiableOp<"slice",
    (ins NN_Any:$input, Optional<Index>:$first, I64Attr:$dim,
         DefaultValuedAttr<I64Attr, "0">:$offset)> {
  let summary = "out[.., i, ..] = x[.., i + offset + first, ..] along one dimension";
  let description = [{
    What a rank takes of a dimension that it holds whole. With `first` the last
    part may reach over the end of x: the last element stands for all there.
  }];
  let results = (outs NN_Any:$output);
  let assemblyFormat = [{
    $input `dim` $dim (`first` $first^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_ConcatOp : NN_NonDifferentiableOp<"concat", (ins Variadic<NN_Any>:$inputs, I64Attr:$dim)> {
  let summary = "The inputs side by side along one dimension.";
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
  let summary = "out = keep ? x / (1 - p) : 0, with counter-based random bits.";
  let description = [{
    Philox4x32-10 (Salmon et al., SC11). `rng` holds seed (low, high), step, 0.
    Element i of the whole tensor of the global batch, i = micro_batch * n + its
    row-major index with n the elements of this tensor, takes word i mod 4 of
    the block with key (seed low, seed high) and counter (low(i / 4),
    high(i / 4), step, site + layer * 0x9E3779B9). It is kept where the word,
    unsigned, is >= floor(p * 2^32). The gradient is the same operation on the
    gradient.

    With one number in `part` this tensor is part `part` of `parts` of a
    micro-batch's, which is split along one dimension. `inner` is the number of
    elements of this tensor from that dimension inwards. The element with
    row-major index j here is element (j / inner * parts + part) * inner +
    j mod inner of the micro-batch's tensor, whose size n is `parts` times this
    one's. With several numbers it is split along so many dimensions, which are
    listed from the outermost inwards.
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
