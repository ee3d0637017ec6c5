//===- GemmTiling.cpp - How a product is divided --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses tile sizes and the number of parts of k (split-K) by a simple cost
// model, from the sizes of the product and of the chip.
//
//===----------------------------------------------------------------------===//

#include "MultiplyUnit.h"

using namespace mlir;

namespace heddle::gpu {

/// The cost of filling the ring of stages and of storing a block's results, as
/// the number of elements along k that the block could multiply meanwhile.
static constexpr double blockOverhead = 128;
/// With split-K, the least number of elements along k that a block multiplies.
static constexpr int64_t leastPart = 256;
static constexpr int64_t mostScratch = int64_t(64) << 20;

/// Returns the estimated time of a product. Its unit is the time in which a
/// multiprocessor does one multiplication.
static double timeOf(const TilingCandidate &candidate,
                     const codegen::Product &product, const Chip &chip,
                     const TilingCosts &costs) {
  const Tiling &tiling = candidate.tiling;
  int64_t blocks = llvm::divideCeil(product.m, tiling.m) *
                   llvm::divideCeil(product.n, tiling.n) * tiling.parts;
  double perBlock =
      tiling.m * tiling.n * (tiling.partK + blockOverhead) / candidate.rate;
  double time = llvm::divideCeil(blocks, chip.multiprocessors) * perBlock;
  if (tiling.parts > 1)
    time += costs.launch + costs.partialSum * product.m * product.n *
                               tiling.parts / chip.multiprocessors;
  return time;
}

Tiling chooseTiling(const codegen::Product &product, const MultiplyUnit &unit,
                    const Chip &chip) {
  std::optional<Tiling> best;
  double least = 0;
  // Without split-K, every tiling adds the terms in the order of k.
  const int64_t mostParts = chip.fixedSums ? 1 : 16;
  for (TilingCandidate candidate : unit.tilings())
    for (int64_t parts = 1; parts <= mostParts; ++parts) {
      Tiling &tiling = candidate.tiling;
      tiling.partK = product.k;
      if (parts > 1)
        tiling.partK =
            llvm::alignTo(llvm::divideCeil(product.k, parts), tiling.k);
      tiling.parts = llvm::divideCeil(product.k, tiling.partK);
      if (tiling.parts > 1 &&
          (tiling.partK < leastPart ||
           tiling.parts * product.m * product.n * 4 > mostScratch))
        break;
      double time = timeOf(candidate, product, chip, unit.costs());
      if (!best || time < least) {
        best = tiling;
        least = time;
      }
    }
  return *best;
}

} // namespace heddle::gpu
