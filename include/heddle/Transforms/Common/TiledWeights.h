//===- TiledWeights.h - The weights that --tile names -----------*- C++ -*-===//
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

/// The setting `tile`, which is a list of PATTERN=N. Each entry cuts every
/// weight whose name matches the pattern into N tiles of rows. A product uses
/// one tile at a time, so that only a part of the weight must be in memory.
class TiledWeights {
public:
  /// Reads the setting `tile` from the model. Emits H0148 on the model if a
  /// pattern or a number of tiles is invalid.
  static mlir::FailureOr<TiledWeights> of(nn::ModelOp model);

  bool empty() const { return entries.empty(); }

  /// The number of tiles for a parameter with that name and type. If several
  /// patterns match, the last one counts. Returns 1 if none matches, or if the
  /// parameter is not a matrix.
  int64_t tilesOf(llvm::StringRef parameter, mlir::Type type) const;

  /// The patterns of the setting `tile` that match none of the given
  /// parameters.
  llvm::SmallVector<llvm::StringRef>
  unmatched(llvm::ArrayRef<llvm::StringRef> parameters) const;

private:
  struct Entry {
    std::string text; ///< The PATTERN of the entry, as the user wrote it.
    llvm::GlobPattern pattern;
    int64_t tiles;
  };
  std::vector<Entry> entries;
};

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_TILEDWEIGHTS_H
