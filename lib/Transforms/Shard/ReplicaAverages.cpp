//===- ReplicaAverages.cpp - What replicas send of an average -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replaces nn.average: replicas send signs and scales, and keep what is lost as
// errors, which they add to what they send next (Tang et al., arXiv 2102.02888,
// algorithm 1).
//
//===----------------------------------------------------------------------===//

#include "BucketCopier.h"
#include "dialects/NN/Scalars.h"
#include "dialects/NN/SignLayout.h"
#include "heddle/PlanFormat/ErrorFeedback.h"
#include "heddle/Transforms/Shard/Shardings.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::shard;
using dist::TensorShardingAttr;

/// The sharding of a tensor of rank `rank` of which replicas split the
/// dimension `dim`; negative: none.
static TensorShardingAttr sharded(const ZeroStorage &zero, int64_t rank,
                                  int64_t dim) {
  Builder builder(zero.context);
  SmallVector<Attribute> dims(rank, builder.getArrayAttr({}));
  if (dim >= 0)
    dims[dim] = builder.getArrayAttr(zero.axes);
  return TensorShardingAttr::get(zero.context, builder.getArrayAttr(dims),
                                 builder.getArrayAttr({}));
}

/// Stacks what each replica has of a flat value.
static Value stack(OpBuilder &builder, Location loc, const ZeroStorage &zero,
                   Value value, TensorShardingAttr from) {
  auto type = cast<RankedTensorType>(value.getType());
  return builder.create<dist::StackOp>(
      loc, type.clone({type.getDimSize(0) * zero.ranks}), value, from,
      sharded(zero, 1, 0));
}

/// Applies a function of one element to tensors of the same shape.
static Value map(OpBuilder &builder, Location loc, ValueRange operands,
                 function_ref<Value(nn::Scalars &, ValueRange)> function) {
  auto map =
      builder.create<nn::MapOp>(loc, operands.front().getType(), operands,
                                nn::FunctionAttr(), ArrayAttr());
  Block &block = map.getBody().emplaceBlock();
  nn::Scalars s(loc, builder.getContext());
  s.setInsertionPointToEnd(&block);
  for (size_t i = 0; i < operands.size(); ++i)
    block.addArgument(s.getF64Type(), loc);
  s.create<nn::ReturnOp>(function(s, block.getArguments()));
  return map.getOutputs()[0];
}

namespace {

/// Builds the exchange of one bucket's average. A rank's summand of a partial
/// sum, and its error, are rows of tensors that the replicas split.
class SignExchange {
public:
  SignExchange(OpBuilder &builder, ParameterBucket &bucket,
               nn::AverageOp average, const ZeroStorage &zero)
      : builder(builder), bucket(bucket), average(average), zero(zero),
        loc(average.getLoc()), layout(countsOf(bucket), zero.ranks),
        segments(FlatSymbolRefAttr::get(bucket.values.getSymNameAttr())) {}

  /// What a replica sends before it is compressed: what the average's map
  /// computes from the replica's gradient, and the error of earlier steps.
  /// `copier` has the operands.
  Value begin(BucketCopier &copier, Value gradient);
  /// The scale of each tensor in a row of `x`.
  Value scalesOf(Value x, UnitAttr chunked);
  /// The sums of squares of the rows of `x`, which has the scales `scales`, and
  /// the numbers of their elements.
  std::pair<Value, Value> squaresOf(Value scales, UnitAttr chunked);
  /// Sends chunk r of each replica's `x` to replica r, and returns their mean
  /// with the error of earlier steps. `received` are the scales of all.
  Value send(Value x, Value scale, Value received);
  /// Sends the means `y` to all replicas; `received` are the scales of all.
  /// Returns the mean of the bucket; `before` if nothing is updated.
  Value finish(Value y, Value scale, Value received, Value before,
               Value factors);
  /// Gives each replica the scales of all.
  Value gathered(Value scale) { return reshard(scale, 0, -1); }

private:
  static SmallVector<int64_t> countsOf(const ParameterBucket &bucket) {
    SmallVector<int64_t> counts;
    for (nn::StateOp parameter : bucket.parameters)
      counts.push_back(parameter.getTensorType().getNumElements());
    return counts;
  }

  Type f32() { return builder.getF32Type(); }
  IntegerAttr parts() { return builder.getI64IntegerAttr(zero.ranks); }
  RankedTensorType tensorOf(ArrayRef<int64_t> shape, Type element) {
    return RankedTensorType::get(shape, element);
  }
  Value reshard(Value value, int64_t from, int64_t to) {
    auto type = cast<RankedTensorType>(value.getType());
    return builder.create<dist::ReshardOp>(
        loc, type, value, sharded(zero, type.getRank(), from),
        sharded(zero, type.getRank(), to), builder.getStringAttr("nn.average"),
        TypeAttr(), DenseI64ArrayAttr());
  }
  /// Reads the errors `what` of the bucket, of which each replica has
  /// `elements`. The first train program that has them adds the state.
  Value readErrors(StringRef what, int64_t elements);
  /// The errors, or zeros if they are of what an earlier phase has sent.
  Value kept(Value errors);
  void setErrors(StringRef what, Value value) {
    builder.create<nn::SetOp>(loc, (what + bucket.name).str(), value);
  }
  /// Gives each element of the bucket the factor of its tensor.
  Value spread(Value factors, Value alike);
  struct Packed {
    Value words, error;
  };
  Packed pack(Value x, Value scale, UnitAttr chunked);

  OpBuilder &builder;
  ParameterBucket &bucket;
  nn::AverageOp average;
  const ZeroStorage &zero;
  Location loc;
  nn::SignLayout layout;
  FlatSymbolRefAttr segments;
};

} // namespace

Value SignExchange::readErrors(StringRef what, int64_t elements) {
  auto step = average->getParentOfType<nn::StepOp>();
  auto model = step->getParentOfType<nn::ModelOp>();
  std::string name = (what + bucket.name).str();
  auto type = tensorOf({elements * zero.ranks}, f32());
  if (!model.lookupSymbol(name)) {
    OpBuilder before(bucket.values);
    auto state =
        before.create<nn::StateOp>(loc, name, nn::StateRole::Optimizer, type);
    state.setStorageAttr(sharded(zero, 1, 0));
    state.setHeld(nn::Holding::Replica);
    state.setCheckpointed(true);
  }
  return builder.create<nn::GetOp>(loc, type, name);
}

Value SignExchange::kept(Value errors) {
  Value keep = average.getKeep();
  if (!keep)
    return errors;
  auto update = builder.create<nn::UpdateOp>(
      loc, errors.getType(), "kept_errors", errors, errors, ValueRange(),
      ValueRange(keep), Value(), nullptr);
  Block &block = update.getBody().emplaceBlock();
  nn::Scalars s(loc, builder.getContext());
  s.setInsertionPointToEnd(&block);
  Value error = block.addArgument(s.getF64Type(), loc);
  block.addArgument(s.getF64Type(), loc);
  s.create<nn::ReturnOp>(s.mul(error, block.addArgument(s.getF64Type(), loc)));
  return update.getOutputs()[0];
}

Value SignExchange::spread(Value factors, Value alike) {
  Value ones =
      map(builder, loc, alike,
          [](nn::Scalars &s, ValueRange) -> Value { return s.real(1); });
  return builder.create<nn::ScaleSegmentsOp>(loc, alike.getType(), ones,
                                             factors, Value(), segments,
                                             DenseI64ArrayAttr(), ArrayAttr());
}

Value SignExchange::begin(BucketCopier &copier, Value gradient) {
  Value error = readErrors(plan::workerError, bucket.elements);
  auto map = average.getInput().getDefiningOp<nn::MapOp>();
  Block &own = map.getBody().front();
  SmallVector<Value> inputs;
  std::optional<unsigned> ofGradient;
  for (auto [number, operand] : llvm::enumerate(map->getOperands())) {
    Value mine = copier.copy(operand);
    if (mine == gradient) {
      ofGradient = number;
      continue;
    }
    auto type = cast<RankedTensorType>(mine.getType());
    inputs.push_back(type.getRank() == 0
                         ? mine
                         : stack(builder, loc, zero, mine,
                                 wholeSharding(builder.getContext(), 1)));
  }
  size_t count = inputs.size();
  if (average.getKeep())
    inputs.push_back(average.getKeep());
  if (average.getFactors()) {
    auto whole = wholeSharding(builder.getContext(), 1);
    Value each = spread(copier.copy(average.getFactors()),
                        copier.copy(average.getBefore()));
    inputs.push_back(stack(builder, loc, zero, each, whole));
  }
  auto update = builder.create<nn::UpdateOp>(
      loc, error.getType(), "error_feedback", error,
      stack(builder, loc, zero, gradient, bucket.gradients.getStorageAttr()),
      ValueRange(), inputs, average.getCondition(), nullptr);
  Block &block = update.getBody().emplaceBlock();
  nn::Scalars s(loc, builder.getContext());
  s.setInsertionPointToEnd(&block);
  for (size_t i = 0; i < 2 + inputs.size(); ++i)
    block.addArgument(s.getF64Type(), loc);
  IRMapping mapping;
  unsigned next = 2;
  for (BlockArgument argument : own.getArguments())
    mapping.map(argument, argument.getArgNumber() == ofGradient
                              ? s.mul(block.getArgument(1),
                                      s.real(static_cast<double>(zero.ranks)))
                              : block.getArgument(next++));
  for (Operation &op : own.without_terminator())
    s.clone(op, mapping);
  Value sent = mapping.lookup(own.getTerminator()->getOperand(0));
  if (average.getFactors())
    sent = s.mul(sent, block.getArguments().back());
  Value kept = block.getArgument(0);
  if (average.getKeep())
    kept = s.mul(kept, block.getArgument(2 + count));
  s.create<nn::ReturnOp>(ValueRange{s.add(kept, sent)});
  return update.getOutputs()[0];
}

Value SignExchange::scalesOf(Value x, UnitAttr chunked) {
  auto tensors = static_cast<int64_t>(layout.tensors.size());
  return builder.create<nn::SignScalesOp>(
      loc, tensorOf({zero.ranks, tensors}, f32()), x, average.getCondition(),
      Value(), chunked, segments, DenseI64ArrayAttr(), parts(), ArrayAttr());
}

std::pair<Value, Value> SignExchange::squaresOf(Value scales,
                                                UnitAttr chunked) {
  auto type = tensorOf({zero.ranks, 1}, f32());
  auto joined = builder.create<nn::JoinScalesOp>(
      loc, type, type, scales, Value(), chunked, segments, DenseI64ArrayAttr(),
      parts(), ArrayAttr());
  return {joined.getSquares(), joined.getElements()};
}

SignExchange::Packed SignExchange::pack(Value x, Value scale,
                                        UnitAttr chunked) {
  auto type = tensorOf({zero.ranks, chunked ? 1 : zero.ranks, layout.words()},
                       builder.getI32Type());
  auto packed = builder.create<nn::PackSignsOp>(
      loc, type, x.getType(), x, scale, Value(), chunked, segments,
      DenseI64ArrayAttr(), parts(), ArrayAttr());
  return {packed.getWords(), packed.getError()};
}

Value SignExchange::send(Value x, Value scale, Value received) {
  Packed packed = pack(x, scale, {});
  setErrors(plan::workerError, packed.error);
  return builder.create<nn::MeanSignsOp>(
      loc, tensorOf({zero.ranks * layout.elements}, f32()),
      reshard(packed.words, 0, 1), received,
      kept(readErrors(plan::serverError, layout.elements)), Value(), segments,
      DenseI64ArrayAttr(), parts(), ArrayAttr());
}

Value SignExchange::finish(Value y, Value scale, Value received, Value before,
                           Value factors) {
  Packed mean = pack(y, scale, builder.getUnitAttr());
  setErrors(plan::serverError, mean.error);
  return builder.create<nn::UnpackSignsOp>(
      loc, before.getType(), reshard(mean.words, 0, -1), received, before,
      average.getCondition(), factors, segments, DenseI64ArrayAttr(), parts(),
      ArrayAttr());
}

/// Whether the mean is the new value of a state.
static bool isState(nn::AverageOp average) {
  return isa_and_nonnull<nn::GetOp>(average.getBefore().getDefiningOp());
}

Value ParameterBuckets::addUp(OpBuilder &builder, ParameterBucket &bucket,
                              nn::AverageOp average, BucketCopier &copier) {
  // The map is linear in the gradient, so the mean over replicas is what it
  // computes from the sum.
  Value sum = bucket.gradient;
  auto whole = zero.flat(bucket.tensor, false);
  // In f32: the condition of the update is known, and must not overflow now.
  if (TensorShardingAttr from = bucket.gradients.getStorageAttr();
      from && from != whole)
    sum = builder.create<dist::ReshardOp>(
        average.getLoc(), sum.getType(), sum, from, whole,
        builder.getStringAttr("nn.average"), TypeAttr(), DenseI64ArrayAttr());
  copier.map(gradientOf(bucket.update), sum);
  Value mine = copier.copy(average.getInput());
  if (!isState(average))
    return mine;
  Value before = copier.copy(average.getBefore());
  return builder.create<nn::AverageOp>(
      average.getLoc(), before.getType(), mine, before, average.getCondition(),
      Value(), Value(), builder.getStringAttr("f32"), UnitAttr(),
      FlatSymbolRefAttr(), ArrayAttr());
}

Value ParameterBuckets::replaceAverage(OpBuilder &builder,
                                       ParameterBucket &bucket,
                                       BucketCopier &copier) {
  nn::AverageOp average = averageOf(bucket.update);
  Location loc = average.getLoc();
  Value mean;
  if (bucket.isCompressed) {
    copier.map(gradientOf(bucket.update), bucket.gradient);
    Value before =
        isState(average)
            ? copier.copy(average.getBefore())
            : builder
                  .create<nn::FillOp>(loc, bucket.values.getType(),
                                      builder.getF64FloatAttr(0), nullptr)
                  .getOutput();
    SignExchange exchange(builder, bucket, average, zero);
    Value x = exchange.begin(copier, bucket.gradient);
    Value scale = exchange.scalesOf(x, {});
    Value y = exchange.send(x, scale, exchange.gathered(scale));
    Value scaleOfMean = exchange.scalesOf(y, builder.getUnitAttr());
    mean = exchange.finish(y, scaleOfMean, exchange.gathered(scaleOfMean),
                           before, Value());
  } else {
    mean = addUp(builder, bucket, average, copier);
  }
  if (isState(average))
    builder.create<nn::SetOp>(
        loc, bucketFor(bucket, average.getBefore()).getSymName(), mean);
  return mean;
}

/// The scale that each row of all tensors has: the root of the mean square.
/// `sums` are the sums of squares of buckets, and the numbers of elements.
static Value jointScale(OpBuilder &builder, Location loc,
                        ArrayRef<std::pair<Value, Value>> sums) {
  auto [squares, elements] = sums.front();
  auto add = [&](Value a, Value b) -> Value {
    return builder.create<nn::AddOp>(loc, a.getType(), a, b, ArrayAttr());
  };
  for (auto [moreSquares, moreElements] : sums.drop_front()) {
    squares = add(squares, moreSquares);
    elements = add(elements, moreElements);
  }
  return map(builder, loc, {squares, elements},
             [](nn::Scalars &s, ValueRange x) -> Value {
               // A rank may have no element of any tensor.
               Value count = s.create<arith::MaximumFOp>(x[1], s.real(1));
               return s.create<math::SqrtOp>(s.div(x[0], count));
             });
}

/// 1 / `factors`, and 0 for factors of 0.
static Value reciprocals(OpBuilder &builder, Value factors) {
  return map(builder, factors.getLoc(), factors,
             [](nn::Scalars &s, ValueRange x) {
               return s.select(s.isGreater(x[0], s.real(0)),
                               s.div(s.real(1), x[0]), s.real(0));
             });
}

void ParameterBuckets::exchangeJointly(OpBuilder &builder,
                                       ArrayRef<BucketCopier *> copiers) {
  SmallVector<SignExchange> exchanges;
  SmallVector<Value> xs, ys;
  SmallVector<std::pair<Value, Value>> sums;
  UnitAttr chunked = builder.getUnitAttr();
  Location loc = buckets.front().update.getLoc();
  for (auto [bucket, copier] : llvm::zip_equal(buckets, copiers)) {
    copier->map(gradientOf(bucket.update), bucket.gradient);
    SignExchange &one =
        exchanges.emplace_back(builder, bucket, averageOf(bucket.update), zero);
    xs.push_back(one.begin(*copier, bucket.gradient));
    sums.push_back(one.squaresOf(one.scalesOf(xs.back(), {}), {}));
  }
  Value scale = jointScale(builder, loc, sums);
  Value received = exchanges.front().gathered(scale);
  sums.clear();
  for (auto [one, x] : llvm::zip_equal(exchanges, xs)) {
    ys.push_back(one.send(x, scale, received));
    sums.push_back(one.squaresOf(one.scalesOf(ys.back(), chunked), chunked));
  }
  scale = jointScale(builder, loc, sums);
  received = exchanges.front().gathered(scale);
  for (auto [bucket, copier, one, y] :
       llvm::zip_equal(buckets, copiers, exchanges, ys)) {
    nn::AverageOp average = averageOf(bucket.update);
    Value factors = average.getFactors();
    if (factors)
      factors = reciprocals(builder, copier->copy(factors));
    copier->map(average.getOutput(),
                one.finish(y, scale, received,
                           copier->copy(average.getBefore()), factors));
  }
}

Value ParameterBuckets::squaresOfReplicas(OpBuilder &builder,
                                          ParameterBucket &bucket) {
  Location loc = bucket.update.getLoc();
  Value stacked = stack(builder, loc, zero, bucket.gradient,
                        bucket.gradients.getStorageAttr());
  int64_t elements = bucket.elements * zero.ranks;
  int64_t blocks = llvm::divideCeil(elements, nn::SquareSumsOp::blockSize);
  auto sums = RankedTensorType::get({blocks}, builder.getF32Type());
  Value squares =
      builder.create<nn::SquareSumsOp>(loc, sums, stacked, ArrayAttr());
  // Each gradient is a summand times `ranks`, and the mean divides by `ranks`.
  return map(builder, loc, squares, [&](nn::Scalars &s, ValueRange x) {
    return s.mul(x[0], s.real(static_cast<double>(zero.ranks)));
  });
}
