//===- PackedSums.cpp - Dequantizes and stores sums -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackedSums.h"
#include "IntegerActivations.h"
#include "PackedGemmAmx.h"
#include "dialects/Dist/ByteSize.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace heddle::cpu {

PackedScratch::PackedScratch(const PackedGemmSpec &spec,
                             const CpuTarget &target) {
  bool usesAmx = PackedGemmAmx::isUsedFor(spec, target);
  bool isPairs = usesAmx && spec.groups == 0;
  int64_t perWord = plan::PackedWeight::wordBits / spec.bits;
  // A prepared row is a row of A in the form that is multiplied. It is either
  // floats, padded to a multiple of `perWord` (the values of B in a packed
  // word), or integers. The buffer must fit the larger of the two forms.
  int64_t elements = llvm::alignTo(spec.k, std::max<int64_t>(perWord, 2));
  rowBytes = llvm::alignTo(elements * (isPairs ? 2 : 4), 64);
  if (spec.groups > 0)
    rowBytes = std::max(rowBytes, IntegerActivations::Layout(spec).bytes());
  rowBytes |= 64; // An odd number of lines avoids conflicts in one cache set.
  blockRows = usesAmx ? PackedGemmAmx::rowsOfBlock(spec) : 64;
  int64_t rows = std::min(spec.m, blockRows);
  if (usesAmx)
    rows = PackedGemmAmx::Layout(spec, rows).rows;
  sumsAt = rowBytes * (usesAmx ? 1 : rows);
  sumBytes = llvm::alignTo(std::max<int64_t>(spec.groups, 1) * 4, 64);
  tilesAt = sumsAt + sumBytes * rows;
  bytes = tilesAt + (usesAmx ? PackedGemmAmx::Layout(spec, rows).bytes : 0);
}

Value PackedSums::row(Value local) {
  return b.advance(memory, b.builder.getI8Type(),
                   b.mul(local, scratch.rowBytes));
}

Value PackedSums::groupSum(Value local, Value group) {
  Type i8 = b.builder.getI8Type();
  Value at = b.advance(b.advance(memory, i8, scratch.sumsAt), i8,
                       b.mul(local, scratch.sumBytes));
  return b.advance(at, b.builder.getF32Type(), group);
}

/// Loads the scales or zero points of group `group` for one vector of columns
/// of a panel, in f32. `vector` is the index of this vector in the panel.
Value PackedSums::groupVector(Value pointer, Value panel, Value group,
                              int64_t vector) {
  Value row = b.add(b.mul(panel, spec.groups), group);
  Value at = b.add(b.mul(row, panelWidth), vector * lanes);
  auto type = VectorType::get(lanes, spec.scaleType);
  return b.widen(b.load(type, b.advance(pointer, spec.scaleType, at),
                        dist::byteSize(spec.scaleType)));
}

PackedSums::Scale PackedSums::scaleOf(const PackedWeight &weight, Value panel,
                                      Value group, int64_t vector) {
  Scale scale{groupVector(weight.scales, panel, group, vector), {}};
  if (weight.zeros)
    scale.minusZero = b.create<arith::NegFOp>(
        groupVector(weight.zeros, panel, group, vector));
  return scale;
}

Value PackedSums::scaled(Scale scale, Value sum, Value local, Value group,
                         Value total) {
  if (scale.minusZero) {
    Value x = b.create<vector::BroadcastOp>(
        sum.getType(),
        b.load(b.builder.getF32Type(), groupSum(local, group), 4));
    sum = b.create<vector::FMAOp>(scale.minusZero, x, sum);
  }
  return b.create<vector::FMAOp>(sum, scale.scale, total);
}

void PackedSums::store(const FusedProducts &part, ValueRange sums, Value row,
                       Value column) {
  Type type = part.cType;
  Value mask, sum = sums.front();
  if (part.n % panelWidth != 0)
    mask = b.mask(b.sub(b.constant(part.n), column), lanes);
  if (part.epilogue)
    sum = part.epilogue(sums, b.toIndex(row), b.toIndex(column), mask);
  Value to = b.advance(part.c, type, b.add(b.mul(row, part.n), column));
  b.store(b.narrow(sum, type), to, dist::byteSize(type), mask);
}

} // namespace heddle::cpu
