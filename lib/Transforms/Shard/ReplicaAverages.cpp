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

/// Whether the average is of what replicas have by themselves.
static bool readsLocal(nn::AverageOp average, const SymbolTable &symbols) {
  return llvm::any_of(average.getInputs(), [&](Value input) {
    auto get = input.getDefiningOp<nn::GetOp>();
    auto bucket = get ? symbols.lookup<nn::BucketOp>(get.getState()) : nullptr;
    if (!bucket)
      return false;
    auto member = cast<FlatSymbolRefAttr>(bucket.getMembers()[0]);
    return symbols.lookup<nn::StateOp>(member.getAttr()).getHolding() ==
           nn::Holding::Local;
  });
}

Value ParameterBuckets::copyAverage(OpBuilder &builder, ParameterBucket &bucket,
                                    BucketCopier &copier) {
  nn::AverageOp average = averageOf(bucket.update);
  Value gradient = bucket.gradient;
  bool isLocal = average.getWire() == "local";
  bool isOfLocal = readsLocal(average, symbols);
  // In f32: the condition of the update is known, and must not overflow now.
  TensorShardingAttr from = bucket.gradients.getStorageAttr();
  auto whole = zero.flat(bucket.tensor, false);
  if (!bucket.isCompressed && !isLocal && !isOfLocal && from && from != whole)
    gradient = builder.create<dist::ReshardOp>(
        average.getLoc(), gradient.getType(), gradient, from, whole,
        builder.getStringAttr("nn.average"), TypeAttr(), DenseI64ArrayAttr());
  copier.map(average.getGradient(), gradient);
  // Each rank sends what it computes of all elements.
  if (bucket.isCompressed)
    for (Value input : average.getInputs())
      if (auto get = input.getDefiningOp<nn::GetOp>();
          get && oldReads.contains(get)) {
        nn::BucketOp mine = bucketFor(bucket, input);
        copier.map(input, reshard(builder, read(builder, mine),
                                  mine.getStorageAttr(), whole, "nn.average"));
      }
  // An average without a state reads zeros.
  if (auto fill = average.getState().getDefiningOp<nn::FillOp>())
    copier.map(fill.getOutput(), builder.create<nn::FillOp>(
                                     fill.getLoc(), bucket.values.getType(),
                                     fill.getValueAttr(), nullptr));
  auto mean = cast<nn::AverageOp>(copier.write(average));
  if (!bucket.isCompressed && !isLocal)
    mean.sendNothing();
  if (!bucket.isCompressed && isOfLocal)
    mean.setWire("mean");
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
