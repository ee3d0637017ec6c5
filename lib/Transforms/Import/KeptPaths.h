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

/// The values that `--keep` asks to dump. A forward function and its layers
/// offer values by nn.keep; each call of a layer has a path.
class KeptPaths {
public:
  explicit KeptPaths(nn::FuncOp forward);

  /// Takes the paths given with `--keep`. Emits H0118 for a path that is not
  /// offered. A path may begin with the name of the model.
  mlir::LogicalResult choose(llvm::ArrayRef<std::string> keep);

  bool keepsLogits() const { return logits; }
  /// Whether to dump the value with this path in the forward function, or the
  /// result of the call with this path.
  bool contains(llvm::StringRef path) const { return outside.contains(path); }
  /// The dumped paths within the call at `path`, sorted.
  std::vector<std::string> within(llvm::StringRef path) const;

private:
  bool add(llvm::StringRef path);
  void reportUnknown(llvm::StringRef path);

  nn::FuncOp forward;
  std::vector<std::string> offered; ///< Paths outside of calls.
  llvm::SmallVector<std::pair<std::string, nn::FuncOp>> calls; ///< By path.
  bool logits = false;
  llvm::StringSet<> outside;
  llvm::StringMap<std::vector<std::string>> inside; ///< By the call's path.
};

} // namespace heddle

#endif // HEDDLE_LIB_TRANSFORMS_IMPORT_KEPTPATHS_H
