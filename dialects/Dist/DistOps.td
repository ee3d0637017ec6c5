//===- DistOps.td - Meshes and reshards --------------------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_OPS
#define HEDDLE_DIALECTS_DIST_OPS

include "dialects/Dist/DistMemoryOps.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def Dist_MeshOp : Dist_Op<"mesh", [Symbol]> {
  let summary = "Names the axes along which the ranks are arranged.";
  let description = [{
    Rank = ((pipe * D + data) * S + seq) * T + tensor: the axes are listed major
    to minor. A factor of another axis stands behind that, and adds no ranks.

    ```mlir
    dist.mesh @pod [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 1>]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$axes);
  let assemblyFormat = "$sym_name $axes attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The number of ranks: the product of the sizes of whole axes.
    int64_t getNumRanks();
    /// The size of the axis, or 0 when the mesh has no such axis.
    int64_t getAxisSize(::llvm::StringRef name);
    /// The number of ranks along these axes; one with its factor is the axis.
    int64_t getSize(::llvm::ArrayRef<::mlir::Attribute> axes);
    /// The number of ranks that share this out.
    int64_t getSize(AxisRole role);
    /// The names of the axes of more than one rank that share this out, the
    /// most major first.
    ::llvm::SmallVector<::mlir::Attribute> getAxesOf(AxisRole role);
    /// Those whose role is wanted.
    ::llvm::SmallVector<::mlir::Attribute>
    getAxesWhere(::llvm::function_ref<bool(AxisRole)> wanted);
  }];
}

def Dist_ReshardOp : Dist_Op<"reshard", [Pure, SameOperandsAndResultType]> {
  let summary = "Gives a value another sharding; becomes the cheapest collective.";
  let description = [{
    `reason` names the operation that asked for it. `wire` is the element type
    that travels, where it is not the value's own; sums are made in f32.
    `segments` gives the sizes of the parts of the dimension that changes, each
    of which is split for itself, as the q, k and v of a packed projection. When
    both shardings are alike, the operation folds away.
  }];
  let arguments = (ins AnyRankedTensor:$input, Dist_TensorShardingAttr:$from,
                       Dist_TensorShardingAttr:$to, StrAttr:$reason,
                       OptionalAttr<TypeAttr>:$wire,
                       OptionalAttr<DenseI64ArrayAttr>:$segments);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = [{
    $input `from` $from `to` $to `for` $reason attr-dict `:` type($output)
  }];
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Local shapes: what a rank does, from the spmd phase on
//===----------------------------------------------------------------------===//

def Dist_RankOp : Dist_Op<"rank", [Pure]> {
  let summary = "The number of this rank among those along some axes.";
  let description = [{
    Counted over the axes' coordinates, major to minor. It is the same in every
    step: the runtime puts a constant in its place.

    ```mlir
    %r = dist.rank ["data", "seq"] : index
    ```
  }];
  let arguments = (ins StrArrayAttr:$axes);
  let results = (outs Index:$index);
  let assemblyFormat = "$axes attr-dict `:` type($index)";
  let hasVerifier = 1;
}

/// Every rank of the group along `axes` gives `input` and gets `output`. With
/// `pending` the result is not there yet: only dist.wait may use it.
class Dist_Collective<string mnemonic, dag extra>
    : Dist_Op<mnemonic, [Pure]> {
  let arguments = !con((ins AnyRankedTensor:$input, StrArrayAttr:$axes), extra,
                       (ins StrAttr:$reason, OptionalAttr<TypeAttr>:$wire,
                            OptionalAttr<DenseI64ArrayAttr>:$segments,
                            UnitAttr:$pending));
  let results = (outs AnyRankedTensor:$output);
  let hasVerifier = 1;
}

def Dist_AllReduceOp : Dist_Collective<"all_reduce", (ins)> {
  let summary = "The sum over the group, on every rank of it.";
  let assemblyFormat = [{
    $input `axes` $axes `for` $reason attr-dict `:` type($input) `->` type($output)
  }];
}

def Dist_ReduceScatterOp : Dist_Collective<"reduce_scatter", (ins I64Attr:$dim)> {
  let summary = "The rank's part, along one dimension, of the sum over the group.";
  let assemblyFormat = [{
    $input `axes` $axes `dim` $dim `for` $reason attr-dict `:` type($input) `->` type($output)
  }];
}

def Dist_AllGatherOp : Dist_Collective<"all_gather", (ins I64Attr:$dim)> {
  let summary = "The parts of all ranks of the group, side by side.";
  let assemblyFormat = [{
    $input `axes` $axes `dim` $dim `for` $reason attr-dict `:` type($input) `->` type($output)
  }];
}

def Dist_AllToAllOp : Dist_Collective<"all_to_all",
    (ins I64Attr:$split_dim, I64Attr:$concat_dim)> {
  let summary = "Splits one dimension over the group and gathers another.";
  let assemblyFormat = [{
    $input `axes` $axes `split` $split_dim `concat` $concat_dim `for` $reason attr-dict `:` type($input) `->` type($output)
  }];
}

def Dist_RotateOp : Dist_Collective<"rotate", (ins)> {
  let summary = "What the rank before this one in the group gives, around its end.";
  let assemblyFormat = [{
    $input `axes` $axes `for` $reason attr-dict `:` type($input) `->` type($output)
  }];
}

def Dist_SliceOp : Dist_Collective<"slice", (ins I64Attr:$dim)> {
  let summary = "The rank's own part of a value that every rank holds.";
  let assemblyFormat = [{
    $input `axes` $axes `dim` $dim `for` $reason attr-dict `:` type($input) `->` type($output)
  }];
}

def Dist_WaitOp : Dist_Op<"wait", [Pure, SameOperandsAndResultType]> {
  let summary = "The value of a pending operation, once that is done.";
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($output)";
}

def Dist_SendOp : Dist_Op<"send"> {
  let summary = "Sends a value to the rank `delta` further along an axis.";
  let description = [{
    What is sent along a channel arrives in the order in which it was sent. The
    send is done before the value's bytes are written again, or at the end of
    the step.
  }];
  let arguments = (ins AnyRankedTensor:$value, StrAttr:$axis, I64Attr:$delta,
                       StrAttr:$channel);
  let assemblyFormat = [{
    $value `to` $delta `on` $axis `channel` $channel attr-dict `:` type($value)
  }];
  let hasVerifier = 1;
}

def Dist_RecvOp : Dist_Op<"recv"> {
  let summary = "Receives a value from the rank `delta` further along an axis.";
  let arguments = (ins StrAttr:$axis, I64Attr:$delta, StrAttr:$channel);
  let results = (outs AnyRankedTensor:$value);
  let assemblyFormat = [{
    `from` $delta `on` $axis `channel` $channel attr-dict `:` type($value)
  }];
  let hasVerifier = 1;
}

#endif // HEDDLE_DIALECTS_DIST_OPS
