//===- QuantizeCopies.cpp - Quantizes weights after their updates ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `train-quantize-copies`: see Passes.td. The schedule is
// that of config::QuantizationSchedule.
//
//===----------------------------------------------------------------------===//

#include "UpdateCondition.h"
#include "dialects/NN/GroupLayout.h"
#include "heddle/Settings/WeightQuantization.h"
#include "heddle/Transforms/Train/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_TRAINQUANTIZECOPIES
#include "include/heddle/Transforms/Train/Passes.h.inc"
} // namespace heddle

namespace {

struct QuantizeCopies : heddle::impl::TrainQuantizeCopiesBase<QuantizeCopies> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    strategy = model.getStrategy().getValue();
    groups = config::quantizedGroupsOf(strategy);
    if (groups.empty())
      return;
    SymbolTable symbols(model);
    for (auto step : model.getOps<nn::StepOp>()) {
      SmallVector<Bucket> buckets;
      for (auto update : step.getBody().getOps<nn::UpdateOp>())
        if (std::optional<Bucket> bucket = bucketOf(symbols, update))
          buckets.push_back(*bucket);
      if (!buckets.empty())
        quantize(step, buckets);
    }
  }

private:
  /// The update of a bucket of weights, and the bucket of their copies.
  struct Bucket {
    nn::UpdateOp update;
    nn::BucketOp copies;
    StringRef group; ///< The group of modules that the weights are of.
  };

  /// Returns the copies that are quantized after the update. Returns nullopt if
  /// it updates something else than weights with such copies.
  static std::optional<Bucket> bucketOf(const SymbolTable &symbols,
                                        nn::UpdateOp update) {
    auto get = update.getParameter().getDefiningOp<nn::GetOp>();
    StringRef group = get ? get.getState() : StringRef();
    if (!group.consume_front("parameters."))
      return std::nullopt;
    auto copies = symbols.lookup<nn::BucketOp>(("copies." + group).str());
    if (!copies)
      return std::nullopt;
    auto first = symbols.lookup<nn::StateOp>(
        cast<FlatSymbolRefAttr>(copies.getMembers()[0]).getAttr());
    if (!first.getQuantizer())
      return std::nullopt;
    return Bucket{update, copies, first.getQuantizer()->getGroup()};
  }

  //===--------------------------------------------------------------------===//
  // The schedule
  //===--------------------------------------------------------------------===//

  /// Adds a number of the schedule to the states, and reads it.
  Value readNumber(OpBuilder &builder, nn::StepOp step, StringRef name,
                   double first) {
    auto type = RankedTensorType::get({}, builder.getF32Type());
    train::addCheckpointedState(step, name, type, first);
    return builder.create<nn::GetOp>(step.getLoc(), type, name);
  }

  /// Advances the schedule in steps that update parameters. Sets `ratio` and
  /// `bits`, which has the bits of each group of modules.
  void advance(OpBuilder &builder, nn::StepOp step, Value condition) {
    Location loc = step.getLoc();
    auto first = config::QuantizationSchedule::first(strategy);
    SmallVector<std::string> names = {plan::quantizationsState,
                                      plan::quantizationRatioState};
    SmallVector<double> values = {static_cast<double>(first.quantizations),
                                  first.ratio};
    for (auto [number, group] : llvm::enumerate(groups)) {
      names.push_back(
          plan::quantizationState(plan::quantizationBitsState, group.name));
      values.push_back(static_cast<double>(first.bits[number]));
      names.push_back(
          plan::quantizationState(plan::quantizationPeriodState, group.name));
      values.push_back(static_cast<double>(first.periods[number]));
    }
    SmallVector<Value> numbers;
    for (auto [name, value] : llvm::zip(names, values))
      numbers.push_back(readNumber(builder, step, name, value));
    SmallVector<Type> types(numbers.size(), numbers[0].getType());
    auto update = builder.create<nn::UpdateOp>(
        loc, types, "quantization", numbers[0], numbers[0],
        ArrayRef(numbers).drop_front(), ValueRange(), condition, nullptr);
    buildSchedule(update.getBody());
    for (auto [name, value] : llvm::zip(names, update.getOutputs()))
      builder.create<nn::SetOp>(loc, name, value);
    ratio = update.getOutputs()[1];
    for (auto [number, group] : llvm::enumerate(groups))
      bits[group.name] = update.getOutputs()[2 + 2 * number];
  }

  void buildSchedule(Region &region) {
    Block &block = region.emplaceBlock();
    nn::Scalars s(region.getLoc(), &getContext());
    s.setInsertionPointToEnd(&block);
    auto add = [&] { return block.addArgument(s.getF64Type(), s.getLoc()); };
    Value before = add();
    add(); // The update's gradient, which is not used.
    Value oldRatio = add(), zero = s.real(0), one = s.real(1);
    Value count = s.add(before, one);
    double change = strategy.moqChangeRatio;
    Value next = change > 0 ? Value(s.create<arith::MaximumFOp>(
                                  s.sub(oldRatio, s.real(change)), zero))
                            : zero;
    SmallVector<Value> fallen;
    for (const config::QuantizedGroup &group : groups) {
      Value bits = add(), period = add();
      Value target = s.real(static_cast<double>(group.targetBits));
      // 1 if the bits fall, else 0.
      Value isReached = s.select(s.isGreater(period, count), zero, one);
      Value falls = s.select(s.isGreater(bits, target), isReached, zero);
      fallen.push_back(s.sub(bits, falls));
      fallen.push_back(s.add(period, s.mul(period, falls)));
      if (change > 0)
        next = s.select(s.isGreater(falls, zero), one, next);
    }
    Value isActive = s.isGreater(count, zero);
    SmallVector<Value> results = {count, s.select(isActive, next, oldRatio)};
    for (auto [number, value] : llvm::enumerate(fallen))
      results.push_back(
          s.select(isActive, value, block.getArgument(3 + number)));
    s.create<nn::ReturnOp>(results);
  }

  //===--------------------------------------------------------------------===//
  // The weights
  //===--------------------------------------------------------------------===//

  void quantize(nn::StepOp step, MutableArrayRef<Bucket> buckets) {
    nn::UpdateOp first = buckets.front().update;
    OpBuilder builder(first);
    advance(builder, step, first.getCondition());
    builder.setInsertionPoint(step.getBody().front().getTerminator());
    for (Bucket &bucket : buckets)
      quantize(builder, bucket);
    numBuckets += buckets.size();
  }

  static Value map(OpBuilder &builder, ValueRange operands,
                   function_ref<Value(nn::Scalars &, ValueRange)> body) {
    Location loc = operands[0].getLoc();
    auto map = builder.create<nn::MapOp>(loc, operands[0].getType(), operands,
                                         nn::FunctionAttr(), ArrayAttr());
    Block &block = map.getBody().emplaceBlock();
    nn::Scalars s(loc, builder.getContext());
    s.setInsertionPointToEnd(&block);
    for (size_t i = 0; i < operands.size(); ++i)
      block.addArgument(s.getF64Type(), loc);
    s.create<nn::ReturnOp>(body(s, block.getArguments()));
    return map.getOutputs()[0];
  }

  void quantize(OpBuilder &builder, Bucket &bucket) {
    Location loc = bucket.copies.getLoc();
    Value weights = bucket.update.getNewParameter();
    auto segments = FlatSymbolRefAttr::get(bucket.copies.getSymNameAttr());
    auto f32 = [&](ArrayRef<int64_t> shape) {
      return RankedTensorType::get(shape, builder.getF32Type());
    };
    int64_t count = 0;
    for (auto member :
         bucket.copies.getMembers().getAsRange<FlatSymbolRefAttr>())
      count += cast<nn::StateOp>(SymbolTable::lookupSymbolIn(
                                     bucket.copies->getParentOp(), member))
                   .getQuantizer()
                   ->getGroups();
    Value maxima = builder.create<nn::GroupMaximaOp>(
        loc, f32({1, 2 * count}), weights, Value(), Value(), segments, nullptr,
        ArrayAttr());
    maxima = builder.create<nn::MaxRowsOp>(loc, f32({2 * count}), maxima,
                                           ArrayAttr());
    Value means, levels;
    auto group = llvm::find_if(
        groups, [&](const auto &one) { return one.name == bucket.group; });
    if (group->targetBits < 3) {
      auto meanAbove = [&](Value above) {
        auto sums = builder.create<nn::GroupSumsOp>(
            loc, f32({count}), f32({count}), weights, above, Value(), Value(),
            segments, nullptr, ArrayAttr());
        return map(
            builder, {sums.getTotals(), sums.getCounts()},
            [](nn::Scalars &s, ValueRange x) { return s.div(x[0], x[1]); });
      };
      means = meanAbove({});
      levels = meanAbove(map(builder, means, [](nn::Scalars &s, ValueRange x) {
        return s.mul(s.real(0.7), x[0]);
      }));
    }
    Value quantized = builder.create<nn::FakeQuantizeOp>(
        loc, bucket.copies.getType(), weights, maxima, bits[bucket.group],
        ratio, means, levels,
        strategy.moqType == config::MoqType::Asymmetric ? builder.getUnitAttr()
                                                        : UnitAttr(),
        Value(), Value(), segments, nullptr, ArrayAttr());
    builder.create<nn::SetOp>(loc, bucket.copies.getSymName(), quantized);
  }

  dist::Strategy strategy;
  std::vector<config::QuantizedGroup> groups;
  Value ratio;
  llvm::StringMap<Value> bits; ///< Of each group of modules, by its name.
};

} // namespace
