//===- NNSegmentOps.td - Operations on members of buckets --*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations that treat each tensor of a bucket as one segment of the flat
// buffer. LAMB needs them for the norm of each parameter. This file uses the
// classes of NNOps.td, which includes it.
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

#endif // HEDDLE_DIALECTS_NN_SEGMENT_OPS
