//===- DistMemoryOps.td - Traffic between memories ---------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations for offloading: transfers between the memory of the device and the
// memory of the host, or a file. The phase spmd inserts these operations.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_MEMORYOPS
#define HEDDLE_DIALECTS_DIST_MEMORYOPS

include "dialects/Dist/DistDialect.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Dist_FetchOp : Dist_Op<"fetch", [
    MemoryEffects<[MemRead]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Reads a range of a flat state that is offloaded.";
  let description = [{
    The range begins at `element` and is as long as the result. The fetch reads
    what earlier stores wrote. With `pending` the transfer is only started, and only
    dist.wait may use the result. With `slot` the state has slots, `element` counts
    from the begin of that slot, and the result may have any shape.

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
  let summary = "Reads the rows of a table that ids name, from a flat state that is offloaded.";
  let description = [{
    The table begins at `element` of the state. It has `rows` rows, each as wide as
    the last dimension of the result. The other dimensions of the result are those
    of the ids. An id that is no row gives NaN, as in nn.embedding. With `first` the
    table is the part of a larger table that begins at row `first`, and ids of other
    parts give zeros. With `pending` the transfer is only started, and only
    dist.wait may use the result.

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
  let summary = "Starts to write a range of a flat state that is offloaded.";
  let description = [{
    The range begins at `element` and is as long as the value. The value's bytes
    must not change until a dist.flush has waited for the store. With `slot` the
    state has slots, `element` counts from the begin of that slot, and the value may
    have any shape.

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
  let summary = "Waits until at most `left` stores of this block are in flight.";
  let description = [{ Stores end in the order in which they were started. }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$left);
  let assemblyFormat = "$left attr-dict";
}

def Dist_CarryOp : Dist_Op<"carry", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Leaves the last `stores` stores of this block in flight when the step ends.";
  let description = [{
    A loop-carried transfer: the next run of the step waits for these stores with
    dist.settle. They are the last stores of the step, and their values must not
    change until then.

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
  let summary = "Waits until at most `left` stores of the previous run of the step are in flight.";
  let description = [{ Waits for the stores that dist.carry left. }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$left);
  let assemblyFormat = "$left attr-dict";
}

def Dist_MoveOp : Dist_Op<"move", [Pure, SameOperandsAndResultType]> {
  let summary = "Copies a value between the device's memory and the host's.";
  let description = [{
    With `to_host` the result is in pinned memory of the host, else in the
    device's. With `pending` the copy is only started, and only dist.wait may use
    the result. An operation that reads values in the host's memory runs on the
    host's cores.

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

#endif // HEDDLE_DIALECTS_DIST_MEMORYOPS
