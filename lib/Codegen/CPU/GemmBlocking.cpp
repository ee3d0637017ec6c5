//===- GemmBlocking.cpp - How a matrix product is cut up -------------------
//===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmBlocking.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <numeric>

using llvm::alignTo;
using llvm::divideCeil;

namespace heddle::cpu {

namespace {
/// K is cut so that a micro-panel of each operand and the block of resident
/// ones stay in the caches.
constexpr int64_t maxWordsPerBlock = 768;
/// On AMX the panels of one micro-kernel have to stay in the first level.
constexpr int64_t maxWordsPerBlockAmx = 256;
/// Bytes of packed resident operand that are kept at once.
constexpr int64_t maxResidentBytes = 1 << 20;
/// Bytes of partial sums that are kept at once when K is cut.
constexpr int64_t maxPartialBytes = 1 << 20;

/// How many rows are few: for more of them packing B pays off, as a packed
/// micro-kernel is faster. bench/README.md has the measurements.
int64_t mostFewRows(const GemmSpec &spec, const CpuTarget &target,
                    bool onTiles) {
  if (spec.transB || !target.hasAvx512)
    return 4;
  return onTiles ? 6 : 8;
}

/// A may be read where it stands when its words are what the micro-kernel
/// needs, and the rows of a block do not fall on the same cache sets.
/// Tiles always read whole blocks of 32 rows and 32 values of K.
bool canReadDirectly(const GemmSpec &spec, bool dot, bool amx, int64_t mr) {
  constexpr int64_t l1WayBytes = 4096, maxLinesPerSet = 8;
  if (amx && (spec.m % 32 != 0 || spec.k % 32 != 0))
    return false;
  if (spec.transA || (dot ? spec.k % 2 != 0 : !spec.aType.isF32()))
    return false;
  int64_t rowBytes = (spec.lda ? spec.lda : spec.k) * (dot ? 2 : 4);
  int64_t distinct = l1WayBytes / std::gcd(l1WayBytes, rowBytes);
  return divideCeil(mr, distinct) <= maxLinesPerSet;
}
} // namespace

GemmBlocking::GemmBlocking(const GemmSpec &spec, const CpuTarget &target) {
  dot = target.hasBf16Dot && spec.aType.isBF16() && spec.bType.isBF16();
  lanes = target.lanes();
  // 28 (12) accumulators, two vectors of B, and one or two for A's values fill
  // the 32 (16) vector registers.
  // AMX makes 2 x 2 tiles at a time.
  int64_t mostSums = target.hasAvx512 ? 28 : 12;
  amx = dot && target.hasAmx;
  fewRows = spec.m <= mostFewRows(spec, target, amx);
  amx &= !fewRows;
  wordStep = amx ? 16 : 1;
  mr = fewRows ? spec.m : amx ? 32 : mostSums / 2;
  nr = 2 * lanes;

  rowBlocks = divideCeil(spec.m, mr);
  rowBase = spec.m / rowBlocks;
  rowExtra = spec.m % rowBlocks;
  panels = divideCeil(spec.n, nr);

  int64_t words = divideCeil(spec.k, perWord());
  kBlocks =
      fewRows ? 1
              : divideCeil(words, amx ? maxWordsPerBlockAmx : maxWordsPerBlock);
  // A multiple of the vector length, so that only the last block has a tail.
  int64_t blockWords = alignTo(divideCeil(words, kBlocks), lanes);
  kBlock = blockWords * perWord();
  kBlocks = divideCeil(spec.k, kBlock);

  // Packing writes whole vectors: one more than the panel may be touched.
  panelBytesA = alignTo((blockWords * mr + lanes) * 4, 64);
  panelBytesB = blockWords * nr * 4;
  tileBytes = alignTo(mr * nr * 4, 64);

  directA = canReadDirectly(spec, dot, amx, mr);
  if (fewRows) {
    planFewRows(spec, mostSums);
    return;
  }
  residentA = spec.m <= spec.n;
  int64_t resident = residentA ? rowBlocks : panels;
  int64_t streamed = residentA ? panels : rowBlocks;
  residentBlock =
      std::clamp<int64_t>(maxResidentBytes / residentPanelBytes(), 1, resident);
  streamBlock = streamed;
  if (kBlocks > 1)
    streamBlock = std::clamp<int64_t>(
        maxPartialBytes / (residentBlock * tileBytes), 1, streamed);

  int64_t tiles = kBlocks > 1 ? residentBlock * streamBlock : 1;
  residentAt = tilesAt + tiles * tileBytes;
  streamAt = residentAt + residentBlock * residentPanelBytes();
  scratchBytes = streamAt + (residentA ? panelBytesB : panelBytesA);
}

void GemmBlocking::planFewRows(const GemmSpec &spec, int64_t mostSums) {
  constexpr int64_t mostTogether = 4;
  residentA = true;
  residentBlock = streamBlock = 1;
  auto isTooMany = [&](int64_t together) {
    return together > mostTogether || together * 2 * spec.m > mostSums ||
           together * nr > spec.n;
  };
  while (!spec.transB && !isTooMany(2 * panelsTogether))
    panelsTogether *= 2;
  residentAt = streamAt = tilesAt + panelsTogether * tileBytes;
  scratchBytes = residentAt + (directA ? 0 : panelBytesA);
}

int64_t gemmScratchBytes(const GemmSpec &spec, const CpuTarget &target) {
  return GemmBlocking(spec, target).scratchBytes;
}

} // namespace heddle::cpu
