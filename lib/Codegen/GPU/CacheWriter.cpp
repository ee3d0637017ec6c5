//===- CacheWriter.cpp - Writes to the paged cache ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CacheWriter.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::gpu {

CacheWriter::CacheWriter(CacheAddresses &a)
    : c(a.c), a(a), lane(c.rem(c.threadId(), warpSize)) {}

Value CacheWriter::number(float value) {
  return c.create<arith::ConstantOp>(c.builder.getF32FloatAttr(value));
}

/// Stores the scale of the int8 codes of a head at `scale`. Returns it as f32.
Value CacheWriter::encode(Value scale) {
  Value largest = number(0);
  for (Value feature : features)
    largest =
        c.create<arith::MaxNumFOp>(largest, c.create<math::AbsFOp>(feature));
  largest =
      acrossLanes(c.builder, c.loc, largest, warpSize, [&](Value a, Value b) {
        return c.create<arith::MaxNumFOp>(a, b);
      });
  Value unit =
      c.narrow(c.create<arith::DivFOp>(largest, number(127)), a.scaleType);
  {
    InsideIf isFirst(c, c.less(lane, 1));
    c.store(unit, scale);
  }
  return c.widen(unit);
}

/// Stores the features of the lane, from element `first` of `to` on. Adjacent
/// features are `stride` elements apart. With a scale `unit` they become int8
/// codes.
void CacheWriter::store(Value to, Value first, int64_t stride, Value unit) {
  Value isAny =
      unit ? c.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, unit, number(0))
           : Value();
  for (auto [i, feature] : llvm::enumerate(features)) {
    Value d = c.add(lane, int64_t(i) * warpSize);
    InsideIf exists(c, c.less(d, a.dims));
    Value index = c.create<arith::AddIOp>(first, c.wide(c.mul(d, stride)));
    Value at = a.advance(to, a.cacheType, index);
    if (!unit) {
      c.store(c.narrow(feature, a.cacheType), at);
      continue;
    }
    Value code = c.create<arith::DivFOp>(feature, unit);
    code = c.create<arith::SelectOp>(isAny, code, number(0));
    code = c.create<arith::MinNumFOp>(
        c.create<arith::MaxNumFOp>(code, number(-127)), number(127));
    code = c.create<arith::FPToSIOp>(c.builder.getI32Type(),
                                     c.create<math::RoundEvenOp>(code));
    c.store(c.create<arith::TruncIOp>(a.cacheType, code), at);
  }
}

LogicalResult CacheWriter::write(int64_t which, Value row, Value token,
                                 Value head, Value position) {
  features.clear();
  FailureOr<SmallVector<Value>> norms = a.reduceHead(which, row, token, head);
  if (failed(norms))
    return failure();
  a.normsOf(which).bind(*norms);
  for (int64_t base = 0; base < a.dims; base += warpSize) {
    // Lanes after the last feature compute it again.
    Value d = a.i32.min(c.add(lane, base), a.dims - 1);
    features.push_back(a.featureOf(which, row, token, head, d));
    if (!features.back())
      return failure();
  }
  bool isKey = which == 1;
  Value page = a.pageOf(row, c.div(position, a.pageTokens));
  Value slot = c.rem(position, a.pageTokens);
  Value inPage = isKey ? slot : c.mul(slot, a.dims);
  Value first =
      c.create<arith::AddIOp>(a.headInPage(page, head), c.wide(inPage));
  Value unit;
  if (a.scales) {
    Value inScales = isKey ? slot : c.add(slot, a.pageTokens);
    unit = encode(a.advance(a.scalesAt(page, head), a.scaleType, inScales));
  }
  store(isKey ? a.keys : a.values, first, isKey ? a.pageTokens : 1, unit);
  return success();
}

LogicalResult CacheWriter::writeItem(Value item, Value row, Value token,
                                     Value head, Value position) {
  auto choice = c.builder.create<scf::IfOp>(c.loc, c.less(item, 1),
                                            /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(c.builder);
  c.builder.setInsertionPointToStart(choice.thenBlock());
  if (failed(write(1, row, token, head, position)))
    return failure();
  c.builder.setInsertionPointToStart(choice.elseBlock());
  return write(2, row, token, head, position);
}

bool isWrittenInPlace(planir::KernelOp kernel, nn::CacheWriteOp write) {
  Operation *yield = kernel.getBody().front().getTerminator();
  return llvm::all_of(write.getTies(), [&](nn::Tie tie) {
    auto cache = dyn_cast<BlockArgument>(tie.operand);
    auto yielded = llvm::find(yield->getOperands(), tie.result);
    return cache && yielded != yield->getOperands().end() &&
           kernel.getTies()[yielded - yield->getOperands().begin()] ==
               int64_t(cache.getArgNumber());
  });
}

} // namespace heddle::gpu
