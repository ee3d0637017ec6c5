//===- ReplicaAverages.cpp - Averages of what replicas compute ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies nn.average for a bucket, and computes the norm of gradients that no
// rank has as a sum.
//
//===----------------------------------------------------------------------===//

#include "BucketCopier.h"
#include "dialects/NN/Scalars.h"
#include "heddle/Transforms/Shard/Shardings.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::shard;
using dist::TensorShardingAttr;

Value ParameterBuckets::copyAverage(OpBuilder &builder, ParameterBucket &bucket,
                                    BucketCopier &copier) {
  nn::AverageOp average = averageOf(bucket.update);
  Value gradient = bucket.gradient;
  // In f32: the condition of the update is known, and must not overflow now.
  TensorShardingAttr from = bucket.gradients.getStorageAttr();
  auto whole = zero.flat(bucket.tensor, false);
  if (!bucket.isCompressed && from && from != whole)
    gradient = builder.create<dist::ReshardOp>(
        average.getLoc(), gradient.getType(), gradient, from, whole,
        builder.getStringAttr("nn.average"), TypeAttr(), DenseI64ArrayAttr());
  copier.map(average.getGradient(), gradient);
  // A mean that is no state: zeros stand for it.
  if (auto fill = average.getState().getDefiningOp<nn::FillOp>())
    copier.map(fill.getOutput(), builder.create<nn::FillOp>(
                                     fill.getLoc(), bucket.values.getType(),
                                     fill.getValueAttr(), nullptr));
  auto mean = cast<nn::AverageOp>(copier.write(average));
  if (!bucket.isCompressed)
    mean.sendNothing();
  if (llvm::any_of(average->getUsers(), llvm::IsaPred<nn::SetOp>))
    builder.create<nn::SetOp>(
        average.getLoc(), bucketFor(bucket, average.getState()).getSymName(),
        mean.getOutput());
  return mean.getOutput();
}

Value ParameterBuckets::squaresOfReplicas(OpBuilder &builder,
                                          ParameterBucket &bucket) {
  Location loc = bucket.update.getLoc();
  int64_t elements = bucket.elements * zero.ranks;
  // A rank has its own summand before and afterwards.
  Value stacked = builder.create<dist::StackOp>(
      loc, RankedTensorType::get({elements}, builder.getF32Type()),
      bucket.gradient, bucket.gradients.getStorageAttr(),
      zero.flat(bucket.tensor, /*split=*/true));
  int64_t blocks = llvm::divideCeil(elements, nn::SquareSumsOp::blockSize);
  auto sums = RankedTensorType::get({blocks}, builder.getF32Type());
  Value squares =
      builder.create<nn::SquareSumsOp>(loc, sums, stacked, ArrayAttr());
  // Each gradient is a summand times `ranks`, and the mean divides by `ranks`.
  return nn::buildMap(builder, loc, squares, [&](nn::Scalars &s, ValueRange x) {
    return s.mul(x[0], s.real(static_cast<double>(zero.ranks)));
  });
}
