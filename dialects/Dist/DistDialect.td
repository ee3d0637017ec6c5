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
    the value is still a partial sum. The strategy attribute holds the user's
    settings; passes read settings from nowhere else.
  }];
  let useDefaultAttributePrinterParser = 1;
}

class Dist_Op<string mnemonic, list<Trait> traits = []>
    : Op<Dist_Dialect, mnemonic, traits>;

class Dist_Attr<string name, string attrMnemonic> : AttrDef<Dist_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Dist_StrategyAttr : Dist_Attr<"Strategy", "strategy"> {
  let summary = "The choices of the user, from flags, ds_config.json or a search.";
  let description = [{
    The rows of Settings.def, by sections ([settings.md](settings.md) has them
    all). A setting that is left out has its default; an unknown name, word or
    value is an error. Example:

    ```mlir
    #dist.strategy<{batch = {global = 4, micro = 2}, precision = bf16,
                    mesh = {data = 2}, zero = {stage = 2}}>
    ```
  }];
  let parameters = (ins
    AttrParameter<"::heddle::dist::Strategy", "the value of every setting",
                  "const ::heddle::dist::Strategy &">:$value,
    AttrParameter<"::llvm::APInt", "a bit for each setting that is written",
                  "const ::llvm::APInt &">:$written);
  let builders = [
    AttrBuilder<(ins "const ::heddle::dist::Strategy &":$value), [{
      return $_get($_ctxt, value, ::heddle::dist::allWritten());
    }]>
  ];
  let extraClassDeclaration = [{
    /// Whether the text of this #dist.strategy gives a value for the setting
    /// with the index `setting` in Settings.def.
    bool isWritten(size_t setting) const { return getWritten()[setting]; }
  }];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Dist_MeshAxisAttr : Dist_Attr<"MeshAxis", "axis"> {
  let summary = "One axis of a mesh.";
  let description = [{
    An axis can be a factor of another one, as experts on the ranks of `data`. Then
    it has no ranks of its own: a rank's index along the factor is its index along
    the whole axis modulo the factor's size.

    ```mlir
    #dist.axis<"data" = 8>
    #dist.axis<"expert" = 4, factor of "data">
    ```
  }];
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$size,
                        OptionalParameter<"::mlir::StringAttr">:$whole);
  let builders = [AttrBuilder<(ins "::llvm::StringRef":$name, "int64_t":$size), [{
    return $_get($_ctxt, name, size, ::mlir::StringAttr());
  }]>];
  let assemblyFormat = "`<` $name `=` $size (`,` `factor` `of` $whole^)? `>`";
}

def Dist_TensorShardingAttr : Dist_Attr<"TensorSharding", "sharding"> {
  let summary = "How one tensor is split over the axes of a mesh.";
  let description = [{
    `dims` holds, for every dimension, the names of the axes that split it, major
    to minor. `unreduced` holds the axes over which the value is a partial sum.
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
