//===- StateTiles.h - Sizes of the tiles of states --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes that move offloaded states choose the size of a tile here, so that
// a step's updates have a bounded number of commands and of bytes in device
// memory.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_STATETILES_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_STATETILES_H

#include "llvm/Support/MathExtras.h"
#include <algorithm>

namespace heddle::spmd {

/// Offset and length of direct I/O are multiples of that many bytes.
constexpr int64_t pageBytes = 4096;
/// The page size of direct I/O in elements of f32.
constexpr int64_t tileUnit = pageBytes / 4;
/// The smallest tile, in elements: a request for fewer costs as much.
constexpr int64_t leastTile = 256 * tileUnit;
/// The number of tiles of all updates of a step that tileElements aims at: a
/// step then has few commands, and the buffers for tiles are small compared
/// with the states.
constexpr int64_t fewTiles = 64;
/// The largest tile in elements, unless there would be more than mostTiles. In
/// f32 it has four times the bytes that are in flight between a disk and the
/// memory at a time; larger tiles gain nothing.
constexpr int64_t largestTile = int64_t(16) << 20;
/// The most tiles: more of them would give a plan too many commands.
constexpr int64_t mostTiles = 128;

/// Returns the elements of a tile of states that have `total` elements and are
/// updated in one step. It is at most `most` (`sub_group_size`), unless that is
/// 0. DeepSpeed's default of 1e9 would make one tile of most models.
inline int64_t tileElements(int64_t most, int64_t total) {
  int64_t size = std::max(
      {leastTile, std::min(total / fewTiles, largestTile), total / mostTiles});
  if (most > 0)
    size = std::min(size, most);
  return llvm::alignTo(std::min(size, total), tileUnit);
}

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_STATETILES_H
