//===- KeptPaths.h - What --keep may name in a model ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Resolves the names given with `--keep` to values of the model.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_IMPORT_KEPTPATHS_H
#define HEDDLE_LIB_TRANSFORMS_IMPORT_KEPTPATHS_H

#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace heddle {

/// The values that `--keep` asks to dump. The forward function and its layers
/// name such values by nn.keep. The path of a value in a layer begins with the
/// path of the layer's call.
class KeptPaths {
public:
  explicit KeptPaths(nn::FuncOp forward);

  /// Chooses the values with the paths that `--keep` gives. Emits H0118 for a
  /// path that no value has. A path may begin with the name of the model.
  mlir::LogicalResult choose(llvm::ArrayRef<std::string> keep);

  bool keepsLogits() const { return logits; }
  /// Whether the value of the forward function with this path is to be dumped.
  /// A call also has a path, which means the call's result.
  bool contains(llvm::StringRef path) const { return outside.contains(path); }
  /// The paths of the values to dump within the layer that the call at `path`
  /// calls. They are relative to `path`, and sorted.
  std::vector<std::string> within(llvm::StringRef path) const;

private:
  bool add(llvm::StringRef path);
  void reportUnknown(llvm::StringRef path);

  nn::FuncOp forward;
  /// The paths of the values that are outside of layers and can be dumped.
  std::vector<std::string> offered;
  /// The calls of layers and the called functions, by path.
  llvm::SmallVector<std::pair<std::string, nn::FuncOp>> calls;
  bool logits = false;
  llvm::StringSet<> outside;
  /// For each call's path, the chosen paths in the called layer.
  llvm::StringMap<std::vector<std::string>> inside;
};

} // namespace heddle

#endif // HEDDLE_LIB_TRANSFORMS_IMPORT_KEPTPATHS_H
