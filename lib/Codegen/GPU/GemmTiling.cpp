//===- GemmTiling.cpp - How a product is divided --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmTiles.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
constexpr Tiling largeMma = {128, 128, 32, 2, 2, 4, true};
constexpr Tiling smallMma = {64, 64, 32, 2, 2, 4, true};
constexpr Tiling largeFma = {128, 128, 8, 4, 2, 3, false};
constexpr Tiling smallFma = {64, 64, 16, 4, 2, 3, false};
/// With fewer blocks than this a large chip is not filled: smaller tiles.
constexpr int64_t fewBlocks = 128;
} // namespace

Tiling chooseTiling(const codegen::Product &product) {
  auto isBf16 = [](Value value) {
    return getElementTypeOrSelf(value.getType()).isBF16();
  };
  bool tensorCores = isBf16(product.a) && isBf16(product.b);
  Tiling tiling = tensorCores ? largeMma : largeFma;
  auto blocks = [&] {
    return llvm::divideCeil(product.m, tiling.m) *
           llvm::divideCeil(product.n, tiling.n);
  };
  if (blocks() < fewBlocks)
    tiling = tensorCores ? smallMma : smallFma;
  tiling.partK = product.k;
  return tiling;
}

} // namespace heddle::gpu
