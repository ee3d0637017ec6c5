//===- MultiplyUnit.cpp - Units that multiply -----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the unit that multiplies the operands of a product.
//
//===----------------------------------------------------------------------===//

#include "MultiplyUnit.h"
#include "PagedTiles.h"
#include "WarpTiles.h"

using namespace mlir;

namespace heddle::gpu {

std::unique_ptr<GemmLoop>
MultiplyUnit::createLoop(ThreadCode &c, const GemmBlock &block) const {
  return std::make_unique<RingLoop>(c, block);
}

std::unique_ptr<WarpTiles> MultiplyUnit::createWarpTiles(KernelFrame &, Type,
                                                         int64_t) const {
  return nullptr;
}

std::unique_ptr<PagedTiles>
MultiplyUnit::createPagedTiles(ThreadCode &, const PagedShape &) const {
  return nullptr;
}

const MultiplyUnit &unitFor(Type left, Type right, config::Matmul matmul) {
  // From the fastest to the slowest. The last one takes operands of all types.
  for (const MultiplyUnit *unit :
       {&bf16Unit(), &fp16Unit(), &tf32Unit(), &fmaUnit()})
    if (unit->takes(left, right, matmul))
      return *unit;
  llvm_unreachable("FMA takes operands of all types");
}

const MultiplyUnit &unitFor(const codegen::Product &product, const Chip &chip) {
  return unitFor(getElementTypeOrSelf(product.a.getType()),
                 getElementTypeOrSelf(product.b.getType()), chip.matmul);
}

} // namespace heddle::gpu
