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

  /// The mean of what replicas compute by the average's map from their own
  /// gradients; `before` if nothing is updated. `copier` has the operands.
  Value build(BucketCopier &copier, Value gradient, Value before,
              Value condition);

private:
  static SmallVector<int64_t> countsOf(const ParameterBucket &bucket) {
    SmallVector<int64_t> counts;
    for (nn::StateOp parameter : bucket.parameters)
      counts.push_back(parameter.getTensorType().getNumElements());
    return counts;
  }

  Type f32() { return builder.getF32Type(); }
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
  Value addErrors(BucketCopier &copier, Value gradient, Value error,
                  Value condition);

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
    state.setInitAttr(nn::InitAttr::get(
        builder.getContext(), nn::InitKind::Constant,
        builder.getF64FloatAttr(0), builder.getF64FloatAttr(0),
        /*zeroRow=*/-1));
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

/// What a replica sends before it is compressed: what the average's map
/// computes from the replica's gradient, and the error of earlier steps.
Value SignExchange::addErrors(BucketCopier &copier, Value gradient, Value error,
                              Value condition) {
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
  auto update = builder.create<nn::UpdateOp>(
      loc, error.getType(), "error_feedback", error,
      stack(builder, loc, zero, gradient, bucket.gradients.getStorageAttr()),
      ValueRange(), inputs, condition, nullptr);
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
  Value kept = block.getArgument(0);
  if (average.getKeep())
    kept = s.mul(kept, block.getArgument(2 + count));
  s.create<nn::ReturnOp>(ValueRange{s.add(kept, sent)});
  return update.getOutputs()[0];
}

Value SignExchange::build(BucketCopier &copier, Value gradient, Value before,
                          Value condition) {
  int64_t ranks = zero.ranks, words = layout.words();
  auto tensors = static_cast<int64_t>(layout.tensors.size());
  auto parts = builder.getI64IntegerAttr(ranks);
  auto scales = [&](Value x, UnitAttr chunked) -> Value {
    return builder.create<nn::SignScalesOp>(
        loc, tensorOf({ranks, tensors}, f32()), x, condition, Value(), chunked,
        segments, DenseI64ArrayAttr(), parts, ArrayAttr());
  };
  auto pack = [&](Value x, Value scale, UnitAttr chunked) {
    auto type =
        tensorOf({ranks, chunked ? 1 : ranks, words}, builder.getI32Type());
    return builder.create<nn::PackSignsOp>(
        loc, type, x.getType(), x, scale, Value(), chunked, segments,
        DenseI64ArrayAttr(), parts, ArrayAttr());
  };
  // Each replica sends chunk r of its summand to replica r.
  Value x =
      addErrors(copier, gradient,
                readErrors(plan::workerError, bucket.elements), condition);
  Value scale = scales(x, {});
  auto packed = pack(x, scale, {});
  setErrors(plan::workerError, packed.getError());
  Value received = reshard(packed.getWords(), 0, 1);
  // Replica r adds them up, and sends the signs of the mean to all.
  Value y = builder.create<nn::MeanSignsOp>(
      loc, tensorOf({ranks * layout.elements}, f32()), received,
      reshard(scale, 0, -1),
      kept(readErrors(plan::serverError, layout.elements)), Value(), segments,
      DenseI64ArrayAttr(), parts, ArrayAttr());
  Value scaleOfMean = scales(y, builder.getUnitAttr());
  auto mean = pack(y, scaleOfMean, builder.getUnitAttr());
  setErrors(plan::serverError, mean.getError());
  return builder.create<nn::UnpackSignsOp>(
      loc, before.getType(), reshard(mean.getWords(), 0, -1),
      reshard(scaleOfMean, 0, -1), before, condition, segments,
      DenseI64ArrayAttr(), parts, ArrayAttr());
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
      Value(), builder.getStringAttr("f32"), ArrayAttr());
}

Value ParameterBuckets::replaceAverage(OpBuilder &builder,
                                       ParameterBucket &bucket,
                                       BucketCopier &copier) {
  auto average = bucket.update.getGradient().getDefiningOp<nn::AverageOp>();
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
    mean = SignExchange(builder, bucket, average, zero)
               .build(copier, bucket.gradient, before, average.getCondition());
  } else {
    mean = addUp(builder, bucket, average, copier);
  }
  if (isState(average))
    builder.create<nn::SetOp>(
        loc, bucketFor(bucket, average.getBefore()).getSymName(), mean);
  return mean;
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
  auto scaled = builder.create<nn::MapOp>(loc, sums, squares,
                                          nn::FunctionAttr(), ArrayAttr());
  Block &block = scaled.getBody().emplaceBlock();
  nn::Scalars s(loc, builder.getContext());
  s.setInsertionPointToEnd(&block);
  // Each gradient is a summand times `ranks`, and the mean divides by `ranks`.
  s.create<nn::ReturnOp>(
      ValueRange{s.mul(block.addArgument(s.getF64Type(), loc),
                       s.real(static_cast<double>(zero.ranks)))});
  return scaled.getOutputs()[0];
}
