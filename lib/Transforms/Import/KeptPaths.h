//===- KeptPaths.h - What --keep may name in a model ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_IMPORT_KEPTPATHS_H
#define HEDDLE_LIB_TRANSFORMS_IMPORT_KEPTPATHS_H

#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace heddle {

/// The values of a forward function that --keep names: those that its nn.keep,
/// and those of the layers it calls, offer.
class KeptPaths {
public:
  explicit KeptPaths(nn::FuncOp forward);

  /// Sorts out what was asked for; failure after reporting H0118 for a path
  /// that is not offered. The first name of a path may be that of the model.
  mlir::LogicalResult choose(llvm::ArrayRef<std::string> keep);

  bool keepsLogits() const { return logits; }
  /// Whether a value of the forward function, or what the call at this path
  /// gives, is kept.
  bool contains(llvm::StringRef path) const { return outside.contains(path); }
  /// The kept paths within the call at `path`, sorted.
  std::vector<std::string> within(llvm::StringRef path) const;

private:
  bool add(llvm::StringRef path);
  void reportUnknown(llvm::StringRef path);

  nn::FuncOp forward;
  std::vector<std::string> offered; ///< Outside of calls.
  llvm::SmallVector<std::pair<std::string, nn::FuncOp>> calls; ///< By path.
  bool logits = false;
  llvm::StringSet<> outside;
  llvm::StringMap<std::vector<std::string>> inside; ///< By the call's path.
};

} // namespace heddle

#endif // HEDDLE_LIB_TRANSFORMS_IMPORT_KEPTPATHS_H
