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

#include "GemmTiles.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
/// A tiling, and its speed on one multiprocessor relative to the speed of the
/// fastest tiling.
struct Candidate {
  Tiling tiling;
  double rate;
};
constexpr Candidate mmaTilings[] = {{{128, 128, 32, 2, 2, 4, true}, 1},
                                    {{64, 64, 32, 2, 2, 4, true}, 0.5}};
constexpr Candidate fmaTilings[] = {{{128, 128, 8, 4, 2, 3, false}, 1},
                                    {{64, 64, 16, 4, 2, 3, false}, 0.6}};

constexpr Candidate tf32Tilings[] = {{{128, 128, 32, 2, 2, 2, false, true}, 1},
                                     {{64, 64, 32, 2, 2, 2, false, true}, 0.5}};

/// Estimated costs of the work that is no multiplication. Their unit is the
/// time in which a multiprocessor does one multiplication.
struct Costs {
  /// The cost of writing one partial sum to memory and reading it again.
  double partialSum;
  /// The cost of the second launch, which adds the partial sums. About a
  /// microsecond passes between two kernels of a CUDA graph.
  double launch;
};
constexpr Costs mmaCosts = {800, 4e6}, tf32Costs = {400, 2e6},
                fmaCosts = {80, 2.5e5};
/// The cost of filling the ring of stages and of storing a block's results, as
/// the number of elements along k that the block could multiply meanwhile.
constexpr double blockOverhead = 128;
/// With split-K, the least number of elements along k that a block multiplies.
constexpr int64_t leastPart = 256;
constexpr int64_t mostScratch = int64_t(64) << 20;
} // namespace

/// Returns the estimated time of a product. Its unit is the time in which a
/// multiprocessor does one multiplication.
static double timeOf(const Candidate &candidate,
                     const codegen::Product &product, const Chip &chip,
                     const Costs &costs) {
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

Tiling chooseTiling(const codegen::Product &product, const Chip &chip) {
  auto isBf16 = [](Value value) {
    return getElementTypeOrSelf(value.getType()).isBF16();
  };
  bool tensorCores = isBf16(product.a) && isBf16(product.b);
  bool tf32 = chip.tf32 && !isBf16(product.a) && !isBf16(product.b);
  const Costs &costs = tensorCores ? mmaCosts : tf32 ? tf32Costs : fmaCosts;
  std::optional<Tiling> best;
  double least = 0;
  for (Candidate candidate : tensorCores ? ArrayRef(mmaTilings)
                             : tf32      ? ArrayRef(tf32Tilings)
                                         : ArrayRef(fmaTilings))
    for (int64_t parts = 1; parts <= 16; ++parts) {
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
      double time = timeOf(candidate, product, chip, costs);
      if (!best || time < least) {
        best = tiling;
        least = time;
      }
    }
  return *best;
}

} // namespace heddle::gpu
