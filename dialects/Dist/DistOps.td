//===- DistOps.td - Meshes, reshards and collectives -------*- tablegen -*-===//
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
    The axes are listed major to minor: rank = ((pipe * D + data) * S + seq) * T +
    tensor. A factor of another axis is listed after that axis, and adds no ranks.

    ```mlir
    dist.mesh @pod [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 1>]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$axes);
  let assemblyFormat = "$sym_name $axes attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The number of ranks: the product of the sizes of all mesh axes. An axis
    /// that is a factor of another one, such as `expert`, does not count,
    /// because the other axis includes it.
    int64_t getNumRanks();
    /// The size of the axis, or 0 when the mesh has no such axis.
    int64_t getAxisSize(::llvm::StringRef name);
    /// The number of ranks along these mesh axes. `expert` is a factor of the
    /// axis `data`, and `data/expert` is the other factor. Together they count
    /// as `data`.
    int64_t getSize(::llvm::ArrayRef<::mlir::Attribute> axes);
    /// The number of ranks along all axes with this role, such as data
    /// parallelism.
    int64_t getSize(AxisRole role);
    /// The names of the mesh axes that have this role (what their ranks split)
    /// and more than one rank, major to minor.
    ::llvm::SmallVector<::mlir::Attribute> getAxesOf(AxisRole role);
    /// The names of the mesh axes that have more than one rank, and for which
    /// the function `wanted` accepts the role (what their ranks split), major
    /// to minor.
    ::llvm::SmallVector<::mlir::Attribute>
    getAxesWhere(::llvm::function_ref<bool(AxisRole)> wanted);
  }];
}

def Dist_ReshardOp : Dist_Op<"reshard", [Pure, SameOperandsAndResultType]> {
  let summary = "Gives a value another sharding; becomes the cheapest collective.";
  let description = [{
    `reason` names the operation that needs the new sharding. `wire` is the element
    type in which data is sent, if it differs from the value's; sums are computed in
    f32. `segments` gives the sizes of consecutive parts of the dimension that
    changes, each of which is split by itself, as q, k and v in one projection. A
    reshard between equal shardings folds away.
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

def Dist_StackOp : Dist_Op<"stack", [Pure]> {
  let summary = "What each rank of a group has of a flat value, one after the other.";
  let description = [{
    The input is [n]: a partial sum, of which each rank has its own summand, or a
    value that all ranks have whole. The result is [D n], and each of the D ranks
    has the n elements that were its own, so that nothing is sent.
  }];
  let arguments = (ins AnyRankedTensor:$input, Dist_TensorShardingAttr:$from,
                       Dist_TensorShardingAttr:$to);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = [{
    $input `from` $from `to` $to attr-dict `:` type($input) `->` type($output)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Operations of one rank's program. They exist from the phase spmd on, which
// replaces the types of whole tensors by those of the rank's shards.
//===----------------------------------------------------------------------===//

def Dist_RankOp : Dist_Op<"rank", [Pure]> {
  let summary = "The index of this rank along some axes.";
  let description = [{
    The index counts the axes' coordinates, major to minor. It is known when the
    runtime loads the plan, which replaces it by a constant.

    ```mlir
    %r = dist.rank ["data", "seq"] : index
    ```
  }];
  let arguments = (ins StrArrayAttr:$axes);
  let results = (outs Index:$index);
  let assemblyFormat = "$axes attr-dict `:` type($index)";
  let hasVerifier = 1;
}

/// A collective among the ranks of a group along `axes`: every rank contributes
/// `input` and receives `output`. With `pending` the collective is only
/// started, and only dist.wait may use the result.
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
  let summary = "The rank's shard, along one dimension, of the sum over the group.";
  let assemblyFormat = [{
    $input `axes` $axes `dim` $dim `for` $reason attr-dict `:` type($input) `->` type($output)
  }];
}

def Dist_AllGatherOp : Dist_Collective<"all_gather", (ins I64Attr:$dim)> {
  let summary = "The shards of all ranks of the group, concatenated along one dimension.";
  let assemblyFormat = [{
    $input `axes` $axes `dim` $dim `for` $reason attr-dict `:` type($input) `->` type($output)
  }];
}

def Dist_AllToAllOp : Dist_Collective<"all_to_all",
    (ins I64Attr:$split_dim, I64Attr:$concat_dim)> {
  let summary = "Splits one dimension over the group and gathers another one.";
  let assemblyFormat = [{
    $input `axes` $axes `split` $split_dim `concat` $concat_dim `for` $reason attr-dict `:` type($input) `->` type($output)
  }];
}

def Dist_RotateOp : Dist_Collective<"rotate", (ins)> {
  let summary = "The value of the previous rank in the group; the first rank gets that of the last.";
  let assemblyFormat = [{
    $input `axes` $axes `for` $reason attr-dict `:` type($input) `->` type($output)
  }];
}

def Dist_SliceOp : Dist_Collective<"slice", (ins I64Attr:$dim)> {
  let summary = "The rank's shard of a value that every rank holds whole.";
  let assemblyFormat = [{
    $input `axes` $axes `dim` $dim `for` $reason attr-dict `:` type($input) `->` type($output)
  }];
}

def Dist_WaitOp : Dist_Op<"wait", [Pure, SameOperandsAndResultType]> {
  let summary = "Waits for a pending operation, and gives its value.";
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($output)";
}

def Dist_SendOp : Dist_Op<"send"> {
  let summary = "Sends a value to the rank `delta` further along an axis.";
  let description = [{
    Messages of one channel arrive in the order in which they are sent. The send
    ends before the value's bytes are written again, and at the latest when the step
    ends.
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
