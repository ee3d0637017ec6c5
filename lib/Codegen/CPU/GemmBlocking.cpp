//===- GemmBlocking.cpp - Blocking of matrix products ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmBlocking.h"
#include "PairUnit.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <numeric>

using llvm::alignTo;
using llvm::divideCeil;

namespace heddle::cpu {

namespace {
/// The largest length of a block of K, in 32-bit words (one f32 or two bf16).
/// With this limit the caches hold a micro-panel of each operand and all packed
/// micro-panels of the resident operand (see GemmBlocking.h).
constexpr int64_t maxWordsPerBlock = 768;
/// The largest length of a block of K on AMX, in words of two bf16. With this
/// limit the first-level cache holds the panels that one micro-kernel reads.
constexpr int64_t maxWordsPerBlockAmx = 256;
/// The largest size in bytes of the packed micro-panels that stay in a cache
/// while the other operand is streamed.
constexpr int64_t maxResidentBytes = 1 << 20;
/// If K has several blocks, partial sums of C are kept in memory from one block
/// of K to the next. This is their largest size in bytes.
constexpr int64_t maxPartialBytes = 1 << 20;

/// The largest number of rows of A for which B is not packed. With more rows,
/// packing B costs less than the faster micro-kernel saves; bench/README.md has
/// the measurements.
int64_t mostFewRows(const GemmSpec &spec, const CpuTarget &target,
                    bool onTiles) {
  if (spec.transB || !target.hasAvx512)
    return 4;
  return onTiles ? 6 : 8;
}

/// Whether micro-kernels can read A from the tensor itself instead of a packed
/// copy. The tensor must hold f32 or, for dot products, whole pairs of bf16
/// along K. The rows of a block must not conflict in cache sets. With AMX there
/// must be whole blocks of 32 rows and 32 values of K, because tiles are always
/// loaded completely.
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
  lanes = target.lanes();
  // 28 vectors of sums, two vectors of B and one or two of A fill the 32 vector
  // registers of AVX-512. AVX2 has 16 registers, of which 12 hold sums.
  int64_t mostSums = target.hasAvx512 ? 28 : 12;
  amx = multipliesTiles(target, spec.aType, spec.bType);
  fewRows = spec.m <= mostFewRows(spec, target, amx);
  amx &= !fewRows;
  dot = amx || multipliesPairs(target, spec.aType, spec.bType);
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
  // Blocks of K are multiples of the vector length, so that only the last block
  // ends with a partial vector.
  int64_t blockWords = alignTo(divideCeil(words, kBlocks), lanes);
  kBlock = blockWords * perWord();
  kBlocks = divideCeil(spec.k, kBlock);

  // Packing writes whole vectors and so may write up to one vector after the
  // end of the panel. Reserve memory for this vector.
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
