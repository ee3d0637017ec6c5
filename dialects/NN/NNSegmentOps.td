//===- NNSegmentOps.td - The tensors of a flat tensor ------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A part of NNOps.td, whose classes it uses.
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
  let summary = "out[s] = sum of squares of the elements of segment s.";
  let description = [{
    A segment of a flat tensor is a member of `bucket`, with its padding, which
    is zero. From the spmd phase on `segments` are their sizes in its place; with
    `first` the input is a run of the flat tensor, from element `first` on: what
    is outside of it adds nothing. Summed in double precision, in an order that
    does not depend on the number of threads, and rounded once.

    ```mlir
    %s = nn.segment_sums %p of @parameters.decay : (tensor<128xf32>) -> tensor<2xf32>
    ```
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
  let summary = "out[i] = x[i] * factors[s], where element i is of segment s.";
  let description = [{
    Segments are those of nn.segment_sums. What is behind the last one is zero.
  }];
  let assemblyFormat = [{
    $input `by` $factors (`of` $bucket^)? (`first` $first^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = !strconcat(
      NN_Localize.declaration, NN_StaysF32<>.declaration,
      NN_Ties.declaration);
}

#endif // HEDDLE_DIALECTS_NN_SEGMENT_OPS
