//===- StateTiles.h - Sizes of the tiles of states --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the size of the tiles in which passes transfer offloaded states.
// Large tiles need much device memory, and small tiles make many commands in
// the updates of a step.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_STATETILES_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_STATETILES_H

#include "llvm/Support/MathExtras.h"
#include <algorithm>

namespace heddle::spmd {

/// The offset and the length of direct I/O must be multiples of this number of
/// bytes.
constexpr int64_t pageBytes = 4096;
/// The number of f32 elements in a page of direct I/O.
constexpr int64_t tileUnit = pageBytes / 4;
/// The smallest tile, in elements. A smaller request to a disk takes as long as
/// a request of this size.
constexpr int64_t leastTile = 256 * tileUnit;
/// The number of tiles, in all optimizer updates of a step together, that
/// `tileElements` aims at. A step then has few commands, and the buffers of
/// tiles are small compared with the states.
constexpr int64_t fewTiles = 64;
/// The largest tile in elements, unless there would then be more than
/// `mostTiles` tiles. In f32 such a tile has four times as many bytes as are in
/// flight between a disk and memory, so larger tiles would be no faster.
constexpr int64_t largestTile = int64_t(16) << 20;
/// The largest number of tiles. With more of them a plan would have too many
/// commands.
constexpr int64_t mostTiles = 128;

/// Returns the number of elements of a tile, for states with `total` elements
/// that are updated in one step. `most` is the setting `sub_group_size`, which
/// limits the size of a tile unless it is 0. The size is often smaller than
/// this limit: with DeepSpeed's default of 1e9, the states of most models would
/// be a single tile.
inline int64_t tileElements(int64_t most, int64_t total) {
  int64_t size = std::max(
      {leastTile, std::min(total / fewTiles, largestTile), total / mostTiles});
  if (most > 0)
    size = std::min(size, most);
  return llvm::alignTo(std::min(size, total), tileUnit);
}

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_STATETILES_H
