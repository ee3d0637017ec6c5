//===- StateTiles.h - Sizes of the tiles of states --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_STATETILES_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_STATETILES_H

#include "llvm/Support/MathExtras.h"
#include <algorithm>

namespace heddle::spmd {

/// What requests of direct I/O are multiples of, in bytes.
constexpr int64_t pageBytes = 4096;
/// The same, in elements of f32.
constexpr int64_t tileUnit = pageBytes / 4;
/// A smaller tile is not worth a request.
constexpr int64_t leastTile = 256 * tileUnit;
/// Tiles of all updates of a step, about: its commands stay few, and slots
/// are a small part of what they are tiles of.
constexpr int64_t fewTiles = 64;
/// No more is gained by a larger tile: in f32 it has four times the bytes
/// that are on their way to and from a disk at a time.
constexpr int64_t largestTile = int64_t(16) << 20;
/// Unless there were so many tiles that a plan has too many commands.
constexpr int64_t mostTiles = 128;

/// The elements of a tile of states with `total` elements that are updated:
/// such that there are not many tiles, and they are not large; and no more
/// than `most` (`sub_group_size`), unless that is 0. DeepSpeed's default is
/// 1e9, with which one tile would be all of many a model.
inline int64_t tileElements(int64_t most, int64_t total) {
  int64_t size = std::max(
      {leastTile, std::min(total / fewTiles, largestTile), total / mostTiles});
  if (most > 0)
    size = std::min(size, most);
  return llvm::alignTo(std::min(size, total), tileUnit);
}

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_STATETILES_H
