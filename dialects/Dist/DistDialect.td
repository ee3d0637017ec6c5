//===- DistDialect.td - Where it is computed ---------------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_DIALECT
#define HEDDLE_DIALECTS_DIST_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::heddle::dist";
  let summary = "Where it is computed: meshes, shardings, strategy, collectives.";
  let description = [{
    A mesh names the axes along which ranks are arranged. A tensor sharding
    gives, for every dimension, the axes that split it, and the axes over which
    the value is still a partial sum. The strategy attribute is what the user
    chose: every pass reads it and nothing else.
  }];
  let useDefaultAttributePrinterParser = 1;
}

class Dist_Attr<string name, string attrMnemonic> : AttrDef<Dist_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Dist_StrategyAttr : Dist_Attr<"Strategy", "strategy"> {
  let summary = "The choices of the user, from flags, ds_config.json or a search.";
  let description = [{
    A closed dictionary; see `Strategy.h` for its keys, their types and
    defaults. Example:

    ```mlir
    #dist.strategy<{batch = 4 : i64, micro_batch = 4 : i64, precision = "bf16"}>
    ```
  }];
  let parameters = (ins "::mlir::DictionaryAttr":$values);
  let assemblyFormat = "`<` $values `>`";
  let genVerifyDecl = 1;
}

def Dist_MeshAxisAttr : Dist_Attr<"MeshAxis", "axis"> {
  let summary = "One axis of a mesh.";
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$size);
  let assemblyFormat = "`<` $name `=` $size `>`";
}

def Dist_TensorShardingAttr : Dist_Attr<"TensorSharding", "sharding"> {
  let summary = "How one tensor is split over the axes of a mesh.";
  let description = [{
    `dims` holds, for every dimension, the names of the axes that split it,
    major to minor; `unreduced` the axes over which the value is a partial sum.
    Every sharding is closed: an axis that is not named replicates the value.

    ```mlir
    #dist.sharding<[["data"], [], []], unreduced []>
    ```
  }];
  let parameters = (ins "::mlir::ArrayAttr":$dims, "::mlir::ArrayAttr":$unreduced);
  let assemblyFormat = "`<` $dims `,` `unreduced` $unreduced `>`";
  let genVerifyDecl = 1;
}

#endif // HEDDLE_DIALECTS_DIST_DIALECT
