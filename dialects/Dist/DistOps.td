//===- DistOps.td - Meshes and reshards --------------------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_OPS
#define HEDDLE_DIALECTS_DIST_OPS

include "dialects/Dist/DistDialect.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Dist_Op<string mnemonic, list<Trait> traits = []>
    : Op<Dist_Dialect, mnemonic, traits>;

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

def Dist_FetchOp : Dist_Op<"fetch", [
    MemoryEffects<[MemRead]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Reads a run of a flat state that is not in the device's memory.";
  let description = [{
    The run begins at `element` and is as long as the result. With `pending` it is
    not there yet: only dist.wait may use it. What was stored before is read. With
    `slot` the state has slots, the run begins in that one, and has any shape.

    ```mlir
    %0 = dist.fetch @exp_avg.decay[4096] {pending} : tensor<1024xf32>
    %1 = dist.wait %0 : tensor<1024xf32>
    %2 = dist.fetch @saved[0] slot %i : tensor<2x64x256xbf16>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$state, I64Attr:$element,
                       UnitAttr:$pending, Optional<Index>:$slot);
  let results = (outs AnyRankedTensor:$output);
  let builders = [OpBuilder<(ins "::mlir::Type":$output,
                                 "::llvm::StringRef":$state, "int64_t":$element,
                                 "bool":$pending), [{
    build($_builder, $_state, output, state, element, pending, ::mlir::Value());
  }]>];
  let assemblyFormat = [{
    $state `[` $element `]` (`slot` $slot^)? attr-dict `:` type($output)
  }];
  let hasVerifier = 1;
}

def Dist_FetchRowsOp : Dist_Op<"fetch_rows", [
    MemoryEffects<[MemRead]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Reads the rows of a table that ids name, of a flat state that is not in the device's memory.";
  let description = [{
    The table begins at `element`, and has `rows` rows, as wide as the last
    dimension of the result; the others are those of the ids. An id that is no
    row gives NaN, as nn.embedding does. With `first` the table is a part of a
    larger one, from that row on: ids of other parts give zeros. With `pending`
    the rows are not there yet: only dist.wait may use them.

    ```mlir
    %0 = dist.fetch_rows @copies.decay[0] of 4099 at %ids {pending} : tensor<2x16xi32> -> tensor<2x16x96xbf16>
    %1 = dist.wait %0 : tensor<2x16x96xbf16>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$state, I64Attr:$element,
                       I64Attr:$rows, StaticShapeTensorOf<[I32]>:$ids,
                       Optional<Index>:$first, UnitAttr:$pending);
  let results = (outs AnyStaticShapeTensor:$output);
  let assemblyFormat = [{
    $state `[` $element `]` `of` $rows `at` $ids (`first` $first^)? attr-dict
    `:` type($ids) `->` type($output)
  }];
  let hasVerifier = 1;
}

def Dist_StoreOp : Dist_Op<"store", [
    MemoryEffects<[MemWrite]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Starts to write a run of a flat state that is not in the device's memory.";
  let description = [{
    The run begins at `element` and is as long as the value, whose bytes stay as
    they are until a dist.flush says that the store is done. With `slot` the state
    has slots, the run begins in that one, and has any shape.

    ```mlir
    dist.store @exp_avg.decay[4096], %0 : tensor<1024xf32>
    dist.flush 0
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$state, I64Attr:$element,
                       AnyRankedTensor:$value, Optional<Index>:$slot);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$state, "int64_t":$element,
                                 "::mlir::Value":$value), [{
    build($_builder, $_state, state, element, value, ::mlir::Value());
  }]>];
  let assemblyFormat = [{
    $state `[` $element `]` (`slot` $slot^)? `,` $value attr-dict `:` type($value)
  }];
  let hasVerifier = 1;
}

def Dist_FlushOp : Dist_Op<"flush", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until at most `left` stores of this block are under way.";
  let description = [{ The stores are done in the order of their starts. }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$left);
  let assemblyFormat = "$left attr-dict";
}

def Dist_CarryOp : Dist_Op<"carry", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Leaves the last `stores` stores of this block to the next run of the step.";
  let description = [{
    They are under way when the step ends, and nothing of it comes behind them. Their
    values stay as they are until a dist.settle of the next run.

    ```mlir
    dist.settle 1
    ...
    dist.store @exp_avg.decay[4096], %0 : tensor<1024xf32>
    dist.store @exp_avg_sq.decay[4096], %1 : tensor<1024xf32>
    dist.carry 2
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntPositive]>:$stores);
  let assemblyFormat = "$stores attr-dict";
}

def Dist_SettleOp : Dist_Op<"settle", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until at most `left` stores that the run before has left are under way.";
  let description = [{ See dist.carry. }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$left);
  let assemblyFormat = "$left attr-dict";
}

def Dist_MoveOp : Dist_Op<"move", [Pure, SameOperandsAndResultType]> {
  let summary = "Copies a value between the device's memory and the host's.";
  let description = [{
    With `to_host` the result is in pinned memory of the host, else in the
    device's. With `pending` it is not there yet: only dist.wait may use it.
    What reads a value that is in the host's memory runs on the host.

    ```mlir
    %0 = dist.move %gradient to_host {pending} : tensor<1024xbf16>
    %1 = dist.wait %0 : tensor<1024xbf16>
    %2 = dist.move %copy to_device : tensor<1024xbf16>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, UnitAttr:$to_host,
                       UnitAttr:$pending);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = [{
    $input (`to_host` $to_host^) : (`to_device`)? attr-dict `:` type($output)
  }];
  let hasVerifier = 1;
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
