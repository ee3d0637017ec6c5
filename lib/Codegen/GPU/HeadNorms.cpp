//===- HeadNorms.cpp - Norms of heads -------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HeadNorms.h"
#include "BlockReduce.h"

using namespace mlir;

namespace heddle::gpu {

HeadNorms::HeadNorms(KernelFrame &f, planir::KernelOp kernel, Value tensor)
    : f(f) {
  for (Operation *op : codegen::producingGenerics(tensor)) {
    auto generic = cast<linalg::GenericOp>(op);
    if (generic.getNumReductionLoops() == 0)
      continue;
    FailureOr<codegen::RowsForm> form =
        codegen::RowsForm::ofRows(kernel, generic.getResult(0));
    isKnown &= succeeded(form) && form->reductionRounds().size() == 1;
    if (isKnown)
      reductions.push_back(form->reductionRounds()[0].reductions[0]);
  }
}

FailureOr<Value> HeadNorms::reduce(const codegen::RowReduction &reduction,
                                   ArrayRef<Value> head) {
  linalg::GenericOp op = reduction.op;
  int64_t extent = op.getStaticLoopRanges().back();
  Walk walk = {accessBytes / dist::byteSize(getElementTypeOrSelf(
                                 op.getDpsInputs()[0].getType())),
               warpSize};
  while (extent % walk.width)
    walk.width /= 2;
  if (!reduction.startsNeutral || extent > warpSize * walk.width)
    return failure();
  Value neutral = f.builder.create<arith::ConstantOp>(f.loc, reduction.neutral);
  auto body = [&](const Chunk &,
                  ValueRange running) -> FailureOr<SmallVector<Value>> {
    FailureOr<Value> terms = f.emitter.terms(op, head);
    if (failed(terms))
      return failure();
    return SmallVector<Value>{
        codegen::combine(f.builder, f.loc, reduction, running[0],
                         combineElements(f, reduction, *terms))};
  };
  f.beginTeams(warpSize);
  FailureOr<SmallVector<Value>> parts =
      forChunks(f, f.constant(0), f.constant(extent), /*isWhole=*/true, walk,
                neutral, body);
  f.endTeams();
  if (failed(parts))
    return failure();
  return acrossBlock(
      f, (*parts)[0], warpSize, /*slots=*/Value(), [&](Value a, Value b) {
        return codegen::combine(f.builder, f.loc, reduction, a, b);
      });
}

FailureOr<SmallVector<Value>> HeadNorms::reduce(Value row, Value token,
                                                Value head) {
  SmallVector<Value> results, at = {row, token, head};
  for (const codegen::RowReduction &reduction : reductions) {
    FailureOr<Value> result = reduce(reduction, at);
    if (failed(result))
      return failure();
    results.push_back(*result);
  }
  if (!isKnown)
    return failure();
  return results;
}

void HeadNorms::bind(ValueRange results) {
  for (auto [reduction, result] : llvm::zip(reductions, results)) {
    linalg::GenericOp op = reduction.op;
    f.emitter.bind(
        op.getResult(0),
        [value = Value(result)](ElementEmitter::Indices) { return value; });
  }
}

} // namespace heddle::gpu
