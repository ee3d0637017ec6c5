//===- TiledWeights.h - Which weights are tiled, and how --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_COMMON_TILEDWEIGHTS_H
#define HEDDLE_TRANSFORMS_COMMON_TILEDWEIGHTS_H

#include "dialects/NN/NNDialect.h"
#include "llvm/Support/GlobPattern.h"

namespace heddle {

/// What a model's strategy says of tiles (`tile`, a list of PATTERN=N). A
/// weight with tiles is computed with a few of its rows at a time.
class TiledWeights {
public:
  /// Emits H0148 on the model for what is no pattern, or no number of tiles.
  static mlir::FailureOr<TiledWeights> of(nn::ModelOp model);

  bool empty() const { return entries.empty(); }

  /// Into how many tiles the strategy wants a parameter of that type; the last
  /// pattern that matches its name counts. 1 for what is no matrix.
  int64_t tilesOf(llvm::StringRef parameter, mlir::Type type) const;

  /// The patterns of which none matches one of those parameters.
  llvm::SmallVector<llvm::StringRef>
  unmatched(llvm::ArrayRef<llvm::StringRef> parameters) const;

private:
  struct Entry {
    std::string text; ///< PATTERN.
    llvm::GlobPattern pattern;
    int64_t tiles;
  };
  std::vector<Entry> entries;
};

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_TILEDWEIGHTS_H
