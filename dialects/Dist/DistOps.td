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
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Dist_Op<string mnemonic, list<Trait> traits = []>
    : Op<Dist_Dialect, mnemonic, traits>;

def Dist_MeshOp : Dist_Op<"mesh", [Symbol]> {
  let summary = "Names the axes along which the ranks are arranged.";
  let description = [{
    Rank = ((pipe * D + data) * S + seq) * T + tensor: the axes are listed major
    to minor.

    ```mlir
    dist.mesh @pod [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 1>]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$axes);
  let assemblyFormat = "$sym_name $axes attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The number of ranks: the product of the sizes of the axes.
    int64_t getNumRanks();
    /// The size of the axis, or 0 when the mesh has no such axis.
    int64_t getAxisSize(::llvm::StringRef name);
  }];
}

def Dist_ReshardOp : Dist_Op<"reshard", [Pure, SameOperandsAndResultType]> {
  let summary = "Gives a value another sharding; becomes the cheapest collective.";
  let description = [{
    `reason` names the operation that asked for it. When both shardings are
    alike, the operation folds away.
  }];
  let arguments = (ins AnyRankedTensor:$input, Dist_TensorShardingAttr:$from,
                       Dist_TensorShardingAttr:$to, StrAttr:$reason);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = [{
    $input `from` $from `to` $to `for` $reason attr-dict `:` type($output)
  }];
  let hasFolder = 1;
}

#endif // HEDDLE_DIALECTS_DIST_OPS
