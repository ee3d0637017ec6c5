//===- NNSignOps.td - Averages in one bit for each element -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations of an average over replicas of which ranks send only signs and
// scales, with error feedback (Tang et al., arXiv 2102.02888, algorithm 1).
// This file uses the classes of NNOps.td, which includes it.
//
// The D replicas exchange the flat tensor of a bucket. Each tensor of the
// bucket is divided into D chunks, of as many elements as fill whole units of
// 64; the last chunks of a small tensor may have fewer elements, or none.
// Replica r adds up chunk r of every tensor. Signs are bits of 32-bit words: 1
// for positive numbers and zero. The chunks r of all tensors, one after the
// other, are C elements and C / 32 words.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_SIGN_OPS
#define HEDDLE_DIALECTS_NN_SIGN_OPS

def NN_AverageOp : NN_NonDifferentiableOp<"average",
    (ins NN_F32:$state, NN_Float:$gradient, Variadic<NN_F32>:$inputs,
         NN_F32:$condition, Optional<NN_F32>:$keep, Optional<NN_F32>:$factors,
         StrAttr:$wire, UnitAttr:$joint, OptionalAttr<FlatSymbolRefAttr>:$bucket),
    [NN_Elementwise, NN_Updates, AttrSizedOperandSegments, IsolatedFromAbove,
     DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A new state: the mean of what replicas compute of their own gradients.";
  let description = [{
    Each replica computes the body from its own summand of `gradient`, times the
    number of replicas. The body has the form of nn.update's: its arguments are
    one element of the state, of the gradient and of each input. It is affine in
    the gradient, so the mean is what it gives for the sum of the summands. If
    `condition`, of rank 0, is 0, the result is the old state.

    ```mlir
    %m1 = nn.average %m, %g with(%factor) if %c wire "sign1" of @parameters.decay
        : (tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>) -> tensor<128xf32> {
    ^bb0(%a: f64, %b: f64, %d: f64):
      %0 = arith.mulf %d, %b : f64
      %1 = arith.addf %a, %0 : f64
      nn.return %1 : f64
    }
    ```

    `wire` is the format in which replicas send it. The pass spmd-expand-averages
    replaces the operation by the collectives of the format.

    | wire | what is sent |
    |---|---|
    | `sign1` | one bit for each element of the parameters in `bucket` |
    | `mean` | numbers, which are all-reduced |
    | `f32` | nothing: the gradient is the sum |
    | `local` | nothing: each replica has what it computes in place of the mean, which is used only if `condition` is not 0 |

    A format that loses something keeps it as errors, and adds `keep` times these
    to what is sent next, or 1 times without `keep`. With `joint` a replica has
    one scale for all averages of the step that are `joint`. `factors` has a
    number for each tensor of `bucket`: before it is compressed, the tensor is
    multiplied by it, and the mean is divided by it; a tensor with the factor 0
    is not sent, and its mean is 0.
  }];
  let results = (outs NN_F32:$output);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $state `,` $gradient (`with` `(` $inputs^ `)`)? `if` $condition
    (`keep` $keep^)? (`by` $factors^)? `wire` $wire (`of` $bucket^)? attr-dict
    `:` functional-type(operands, results) $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = !strconcat([{
    /// Leaves out what belongs to a wire format: the gradient is the sum.
    void sendNothing();
    bool readsSummand(::mlir::OpOperand &operand) {
      return operand.getOperandNumber() == 1;
    }
  }], NN_StaysF32<>.declaration, NN_Ties.declaration);
}

/// An operation of one rank's program on the chunks of a bucket's tensors.
/// `counts` has the elements of each tensor. `parts` is the number D of chunks
/// of each tensor.
class NN_SignOp<string mnemonic, dag args, list<Trait> traits = []>
    : NN_NonDifferentiableOp<mnemonic, !con(args,
        (ins DenseI64ArrayAttr:$counts, I64Attr:$parts)), traits> {
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(
      NN_StaysF32<>.declaration, NN_Ties.declaration);
}

def NN_SignScalesOp : NN_NonDifferentiableOp<"sign_scales",
    (ins NN_F32:$input, NN_F32:$condition, Optional<Index>:$first,
         UnitAttr:$chunked, OptionalAttr<FlatSymbolRefAttr>:$bucket,
         OptionalAttr<DenseI64ArrayAttr>:$counts, I64Attr:$parts),
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "scales[r, s] = |x[r, s]| / sqrt(n): the scale of tensor s in row r";
  let description = [{
    The input is [R n], of R rows. A row is the flat tensor of the bucket. With
    `chunked` row r is chunk r of each tensor. scales is [R, tensors]: the root of
    the mean square of the tensor's elements in the row, 0 if there are none. If
    `condition`, of rank 0, is 0, all scales are.

    ```mlir
    %a = nn.sign_scales %x if %c parts 2 {counts = array<i64: 100>}
        : (tensor<256xf32>, tensor<f32>) -> tensor<2x1xf32>
    ```

    `first` is the index of the first row; none: 0. Before the spmd phase,
    `bucket` can name the tensors instead of `counts`. Sums are computed in
    double precision, in an order that does not depend on the number of threads,
    and rounded once.
  }];
  let results = (outs NN_F32:$scales);
  let assemblyFormat = [{
    $input `if` $condition (`of` $bucket^)? (`first` $first^)? `parts` $parts
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat(
      NN_Localize.declaration, NN_StaysF32<>.declaration,
      NN_Ties.declaration);
}

def NN_JoinScalesOp : NN_SignOp<"join_scales",
    (ins NN_F32:$scales, Optional<Index>:$first, UnitAttr:$chunked)> {
  let summary = "The sum of squares of the elements that scales are of, and their number.";
  let description = [{
    `scales` is [R, tensors], a result of nn.sign_scales with the same
    attributes; squares and elements are [R, 1]. The root of their quotient is
    the scale that all tensors of a row have together. Added up for several
    buckets, they give a scale of all.

    ```mlir
    %s, %n = nn.join_scales %a parts 2 {counts = array<i64: 100>}
        : (tensor<2x1xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>)
    ```
  }];
  let results = (outs NN_F32:$squares, NN_F32:$elements);
  let assemblyFormat = [{
    $scales (`first` $first^)? `parts` $parts attr-dict `:`
    functional-type(operands, results)
  }];
}

def NN_PackSignsOp : NN_SignOp<"pack_signs",
    (ins NN_F32:$input, NN_F32:$scales, Optional<Index>:$first,
         UnitAttr:$chunked), [NN_Updates]> {
  let summary = "The signs of x, and error = x - scale * sign(x).";
  let description = [{
    `input` and `chunked` are those of nn.sign_scales; `scales` are its results,
    or [R, 1], one for all tensors of a row. words is [R, D, C / 32], the chunks
    of each row, or [R, 1, C / 32] with `chunked`. error is as the input. Elements
    beyond the end of a tensor are zero in it, and their bits are.

    ```mlir
    %w, %e = nn.pack_signs %x scales %a parts 2 {counts = array<i64: 100>}
        : (tensor<256xf32>, tensor<2x1xf32>) -> (tensor<2x2x2xi32>, tensor<256xf32>)
    ```
  }];
  let results = (outs NN_Ids:$words, NN_F32:$error);
  let assemblyFormat = [{
    $input `scales` $scales (`first` $first^)? `parts` $parts
    attr-dict `:` functional-type(operands, results)
  }];
}

def NN_MeanSignsOp : NN_SignOp<"mean_signs",
    (ins NN_Ids:$words, NN_F32:$scales, NN_F32:$error, Optional<Index>:$first),
    [NN_Updates]> {
  let summary = "y = error + the mean over senders of scale * sign";
  let description = [{
    words is [D, R, C / 32], what D senders have sent for the chunks of R rows;
    scales is [D, tensors], or [D, 1]; error and y are [R C]. Elements beyond the
    end of a tensor are zero in y.

    ```mlir
    %y = nn.mean_signs %w scales %a to %e parts 2 {counts = array<i64: 100>}
        : (tensor<2x2x2xi32>, tensor<2x1xf32>, tensor<128xf32>) -> tensor<128xf32>
    ```
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = [{
    $words `scales` $scales `to` $error (`first` $first^)? `parts` $parts
    attr-dict `:` functional-type(operands, results)
  }];
}

def NN_UnpackSignsOp : NN_SignOp<"unpack_signs",
    (ins NN_Ids:$words, NN_F32:$scales, NN_F32:$before, NN_F32:$condition,
         Optional<NN_F32>:$factors),
    [NN_Updates]> {
  let summary = "The flat tensor of a bucket: scale * sign.";
  let description = [{
    words is [D, 1, C / 32], scales [D, tensors]: one scale for each chunk of
    each tensor; or [D, 1], one for the chunks of all. `factors`, if given, has a
    number for each tensor by which its scales are multiplied. Padding of the
    flat tensor is zero. If `condition`, of rank 0, is 0, the result is `before`.

    ```mlir
    %m1 = nn.unpack_signs %w scales %b else %m if %c parts 2 {counts = array<i64: 100>}
        : (tensor<2x1x2xi32>, tensor<2x1xf32>, tensor<128xf32>, tensor<f32>) -> tensor<128xf32>
    ```
  }];
  let results = (outs NN_F32:$output);
  let assemblyFormat = [{
    $words `scales` $scales (`times` $factors^)? `else` $before `if` $condition
    `parts` $parts attr-dict `:` functional-type(operands, results)
  }];
}

#endif // HEDDLE_DIALECTS_NN_SIGN_OPS
