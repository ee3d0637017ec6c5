//===- NNGroupOps.td - Weights that are quantized in training --*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations that quantize the flat tensor of a bucket of weights for training
// (MoQ: mixture of quantization). Elements of a group share a scale. A tensor
// has one or more groups of equal size: consecutive elements of the weight as
// [outputs, inputs]. This file uses the classes of NNOps.td, which includes it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_GROUP_OPS
#define HEDDLE_DIALECTS_NN_GROUP_OPS

/// An operation on the groups of a bucket of copies in compute precision, whose
/// states say how they are quantized. After the spmd phase, `tensors` replaces
/// `bucket`; see nn.fake_quantize. With `first` the input is a range of the flat
/// tensor, from element `first` on. `part` is the number of the rank's part of
/// tensors that ranks split. Padding is in no group.
class NN_GroupOp<string mnemonic, dag args, list<Trait> traits = []>
    : NN_NonDifferentiableOp<mnemonic, !con(args,
        (ins Optional<Index>:$first, Optional<Index>:$part,
             OptionalAttr<FlatSymbolRefAttr>:$bucket,
             OptionalAttr<DenseI64ArrayAttr>:$tensors)),
        !listconcat([AttrSizedOperandSegments,
                     DeclareOpInterfaceMethods<SymbolUserOpInterface>],
                    traits)> {
  let hasVerifier = 1;
}

def NN_GroupMaximaOp : NN_GroupOp<"group_maxima", (ins NN_F32:$input)> {
  let summary = "out[r, g] = the largest x, out[r, G + g] = the largest -x of group g in range r";
  let description = [{
    The input is [n], the flat tensor of a bucket with G groups, in R ranges of
    equal length; out is [R, 2 G]. Where a range has no element of a group, out
    is -infinity. nn.max_rows finds the largest of all ranges.

    ```mlir
    %m = nn.group_maxima %x of @copies.decay : (tensor<128xf32>) -> tensor<1x4xf32>
    ```

    `bucket`, `tensors`, `first` and `part` are those of nn.fake_quantize.
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = [{
    $input (`of` $bucket^)? (`first` $first^)? (`part` $part^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = !strconcat(
      NN_Localize.declaration, NN_StaysF32<>.declaration);
}

def NN_GroupSumsOp : NN_GroupOp<"group_sums",
    (ins NN_F32:$input, Optional<NN_F32>:$above)> {
  let summary = "totals[g] = sum of |x| over group g, counts[g] = number of its elements";
  let description = [{
    The input is [n], the flat tensor of a bucket with G groups; `totals`,
    `counts` and `above` are [G]. With `above` only elements with |x| > above[g] count.

    ```mlir
    %s, %c = nn.group_sums %x above %t of @copies.decay
        : (tensor<128xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    ```

    Sums are computed in double precision, in an order that does not depend on
    the number of threads, and rounded once. `bucket`, `tensors`, `first` and
    `part` are those of nn.fake_quantize.
  }];
  let results = (outs NN_F32:$totals, NN_F32:$counts);
  let assemblyFormat = [{
    $input (`above` $above^)? (`of` $bucket^)? (`first` $first^)? (`part` $part^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = !strconcat(
      NN_Localize.declaration, NN_StaysF32<>.declaration);
}

def NN_FakeQuantizeOp : NN_GroupOp<"fake_quantize",
    (ins NN_F32:$input, NN_F32:$maxima, NN_F32:$bits, NN_F32:$ratio,
         Optional<NN_F32>:$means, Optional<NN_F32>:$levels,
         UnitAttr:$asymmetric),
    [NN_Updates]> {
  let summary = "out[i] = r x + (1 - r) q(x): weights, rounded to the values of few bits";
  let description = [{
    x and out are [n], the flat tensor of a bucket with G groups. `maxima` is [2 G],
    as nn.group_maxima and nn.max_rows compute it; `bits` b and `ratio` r are
    numbers. Computed in f32 and rounded once more to the type of out:

    | bits | q(x) |
    |---|---|
    | 3 to 16, symmetric | s clamp(round(x / s), -2^(b-1), 2^(b-1) - 1), with s = 2 max \|x\| / 2^b |
    | 3 to 16, `asymmetric` | s clamp(round((x - z) / s), 0, 2^b - 1) + z, with s = (max x - min x) / 2^b and z = s round(min x / s) |
    | 2 | levels[g] sign(x) if \|x\| > 0.7 means[g], otherwise 0 |
    | 1 | means[g] sign(x) |

    Ties are rounded to even. q(x) is x where s is 0. `means` and `levels` [G] are
    the means of |x| over all elements of a group, and over those with
    |x| > 0.7 means; they are needed for bits below 3.

    ```mlir
    %q = nn.fake_quantize %x by %m bits %b ratio %r of @copies.decay
        : (tensor<128xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<128xbf16>
    ```

    `bucket` has copies of weights in compute precision, whose attribute
    `quantizer` says how many groups each has. After the spmd phase, `tensors`
    holds seven numbers for each tensor instead: the rows and columns of the
    rank's part, the groups, 1 if rows are inputs and columns outputs, otherwise
    0, the rows and columns of the whole tensor, and 1 if ranks split its rows, 2
    if they split its columns, otherwise 0. `part` is the number of the part:
    rows or columns after the end of the whole tensor are padding. With `first`
    the input is a range of the flat tensor, from element `first` on. Padding is
    zero in out.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input `by` $maxima `bits` $bits `ratio` $ratio
    (`means` $means^ `levels` $levels)? (`of` $bucket^)? (`first` $first^)?
    (`part` $part^)? attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = NN_Localize.declaration;
}

#endif // HEDDLE_DIALECTS_NN_GROUP_OPS
