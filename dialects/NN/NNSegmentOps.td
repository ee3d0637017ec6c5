//===- NNSegmentOps.td - Operations on members of buckets --*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations that treat each tensor of a bucket as one segment of the flat
// buffer, which optimizers such as LAMB need for the norms of parameters, and on
// numbers that an optimizer has for each parameter. This file uses the classes
// of NNOps.td, which includes it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_SEGMENT_OPS
#define HEDDLE_DIALECTS_NN_SEGMENT_OPS

class NN_SegmentOp<string mnemonic, dag args>
    : NN_NonDifferentiableOp<mnemonic, !con(args,
        (ins Optional<Index>:$first, OptionalAttr<FlatSymbolRefAttr>:$bucket,
             OptionalAttr<DenseI64ArrayAttr>:$segments)),
        [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let results = (outs NN_F32:$output);
  let hasVerifier = 1;
}

def NN_SegmentSumsOp : NN_SegmentOp<"segment_sums", (ins NN_F32:$input)> {
  let summary = "out[s] = sum of squares of the elements of segment s";
  let description = [{
    The input is [n], the flat tensor of a bucket; out is [number of segments].

    ```mlir
    %s = nn.segment_sums %p of @parameters.decay : (tensor<128xf32>) -> tensor<2xf32>
    ```

    Segment s is member s of `bucket` with its padding, which is zero. After the
    spmd phase, `segments` holds the sizes of the segments instead of `bucket`.
    With `first` the input is a range of the flat tensor, from element `first`
    on: the rank's shard, or a tile of it. Elements outside of the range do not
    contribute. The sum is computed in double precision, in an order that does
    not depend on the number of threads, and rounded once.
  }];
  let assemblyFormat = [{
    $input (`of` $bucket^)? (`first` $first^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = !strconcat(
      NN_Localize.declaration, NN_StaysF32<>.declaration);
}

def NN_ScaleSegmentsOp : NN_SegmentOp<"scale_segments",
    (ins NN_F32:$input, NN_F32:$factors)> {
  let summary = "out[i] = x[i] * factors[s], where element i is in segment s";
  let description = [{
    x and out are [n], `factors` is [number of segments].

    ```mlir
    %y = nn.scale_segments %x by %f of @parameters.decay
        : (tensor<128xf32>, tensor<2xf32>) -> tensor<128xf32>
    ```

    `bucket`, `segments` and `first` are those of nn.segment_sums. Elements after
    the last segment are zero in out.
  }];
  let assemblyFormat = [{
    $input `by` $factors (`of` $bucket^)? (`first` $first^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = !strconcat(
      NN_Localize.declaration, NN_StaysF32<>.declaration,
      NN_Ties.declaration);
}

/// An operation on buckets of numbers: each tensor of the bucket has one
/// element, the first one of its 64.
class NN_NumbersOp<string mnemonic, dag args, list<Trait> traits = []>
    : NN_NonDifferentiableOp<mnemonic, args, traits> {
  let hasVerifier = 1;
}

def NN_ReadNumbersOp : NN_NumbersOp<"read_numbers", (ins NN_F32:$input)> {
  let summary = "out[s] = x[64 s]: the numbers of a bucket of numbers";
  let description = [{
    x is [n], the flat tensor of a bucket whose tensors have one element each;
    out is [number of tensors].

    ```mlir
    %c = nn.read_numbers %b : (tensor<128xf32>) -> tensor<2xf32>
    ```
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = [{
    $input attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = NN_StaysF32<>.declaration;
}

def NN_WriteNumbersOp : NN_NumbersOp<"write_numbers",
    (ins NN_F32:$numbers, NN_F32:$before, NN_F32:$condition), [NN_Updates]> {
  let summary = "out[64 s] = numbers[s]: new numbers of a bucket of numbers";
  let description = [{
    `numbers` is [number of tensors], `before` and out are [n], as the input of
    nn.read_numbers. Padding is zero in out. If `condition`, of rank 0, is 0, out
    is `before`.

    ```mlir
    %b1 = nn.write_numbers %c to %b if %if
        : (tensor<2xf32>, tensor<128xf32>, tensor<f32>) -> tensor<128xf32>
    ```
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = [{
    $numbers `to` $before `if` $condition attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = !strconcat(
      NN_StaysF32<>.declaration, NN_Ties.declaration);
}

def NN_SegmentMaximaOp : NN_NonDifferentiableOp<"segment_maxima",
    (ins NN_F32:$input, Optional<Index>:$first,
         OptionalAttr<FlatSymbolRefAttr>:$bucket,
         OptionalAttr<DenseI64ArrayAttr>:$counts),
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "out[r, s] = the largest element of segment s in range r";
  let description = [{
    The input is [n], the flat tensor of a bucket, in R ranges of equal length;
    out is [R, number of segments]. Padding does not count. Where a range has no
    element of a segment, out is -infinity. nn.max_rows finds the largest
    element of the segment.

    ```mlir
    %m = nn.segment_maxima %x of @parameters.decay : (tensor<128xf32>) -> tensor<1x2xf32>
    ```

    After the spmd phase, `counts` holds the elements of each tensor instead of
    `bucket`, and the input may be a range of the flat tensor, from element
    `first` on, with some of the rows.
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = [{
    $input (`of` $bucket^)? (`first` $first^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(
      NN_Localize.declaration, NN_StaysF32<>.declaration);
}

def NN_MaxRowsOp : NN_NonDifferentiableOp<"max_rows", (ins NN_F32:$input)> {
  let summary = "out[c] = the largest of x[..., c]";
  let description = [{
    x is [R, C], out is [C].

    ```mlir
    %m = nn.max_rows %x : (tensor<4x2xf32>) -> tensor<2xf32>
    ```
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = [{
    $input attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_StaysF32<>.declaration;
}

#endif // HEDDLE_DIALECTS_NN_SEGMENT_OPS
