//===- Optimizer.cpp - Clips the gradients and updates the parameters -----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Appends the optimizer to the training step: norm of the gradients, clipping,
// conditions for skipping the update, and one update for each bucket. The rules
// of the optimizers are in Optimizers/.
//
//===----------------------------------------------------------------------===//

#include "DelayedScalars.h"
#include "GradientPhases.h"
#include "LocalSteps.h"
#include "Optimizers/Optimizers.h"
#include "ParameterNumbers.h"
#include "UpdateCondition.h"
#include "UpdateGroups.h"
#include "dialects/Dist/Wire.h"
#include "dialects/NN/Phases.h"
#include "dialects/NN/ProgramPorts.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/PlanFormat/UpdateCounts.h"
#include "heddle/Settings/LayerDrop.h"
#include "heddle/Transforms/Common/FunctionTypes.h"
#include "heddle/Transforms/Common/Programs.h"
#include "heddle/Transforms/Train/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <map>
#include <utility>

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_TRAINOPTIMIZER
#include "include/heddle/Transforms/Train/Passes.h.inc"
} // namespace heddle

namespace {

/// Scalar operands of an optimizer update. The update of every element reads
/// them. A scalar that the update does not need is null.
struct StepScalars {
  Value lr;
  Value rates; ///< The sum of the rates since replicas last synchronized.
  SmallVector<Value> corrections;
  Value factor; ///< Multiplies gradients: clips and unscales them.
  Value weightDecay;
  Value condition; ///< 1, or 0 if the step must not update anything.
  /// What multiplies the errors of averages before they are used; null: 1.
  Value keptErrors;
};

/// The name of the optimizer state that holds the gradients of a delayed update
/// until the next step applies them. In lists of states this state comes after
/// the states that the optimizer's rule defines.
constexpr StringLiteral delayedGradient = "delayed_gradient";

struct Optimizer : heddle::impl::TrainOptimizerBase<Optimizer> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    strategy = model.getStrategy().getValue();
    optimizer = train::optimizerOf(strategy);
    if (strategy.delayedUpdate)
      optimizer.states.push_back(delayedGradient);
    SmallVector<nn::StepOp> steps;
    for (auto step : model.getOps<nn::StepOp>())
      if (step.getKind() == nn::ProgramKind::Train)
        steps.push_back(step);
    if (optimizer.later.empty()) {
      for (nn::StepOp step : steps)
        update(model, step, nullptr);
    } else if (steps.size() > 1) {
      steps[1].emitError("H0108: the optimizer has phases of its own, so the "
                         "model can have only one train program");
      signalPassFailure();
    } else if (!steps.empty()) {
      updateInPhases(model, steps.front());
    }
  }

private:
  using Group = train::UpdateGroup;
  using LaterPhase = train::LaterPhase;

  /// Gives each phase of the optimizer a copy of the step.
  void updateInPhases(nn::ModelOp model, nn::StepOp step) {
    auto begin = [&](nn::StepOp one, StringRef name, int64_t from, int64_t to,
                     plan::Interval every) {
      nn::IntervalAttr interval;
      if (every.isSet())
        interval = nn::IntervalAttr::get(&getContext(), every.doubledAfter,
                                         every.countsRuns, every.atMost);
      one.setPhaseAttr(nn::PhaseAttr::get(
          &getContext(), StringAttr::get(&getContext(), name), from,
          /*countsUpdates=*/true, interval, to));
      one.setSymName(
          nn::programName(nn::ProgramKind::Train, one.getPhaseAttr()));
    };
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(step);
    SmallVector<nn::StepOp> copies;
    for (const LaterPhase &phase : optimizer.later) {
      copies.push_back(cast<nn::StepOp>(builder.clone(*step)));
      begin(copies.back(), phase.name, phase.from, phase.to, phase.every);
    }
    begin(step, "dense", 1, 0, optimizer.dense);
    update(model, step, nullptr);
    for (auto [copy, phase] : llvm::zip(copies, optimizer.later))
      update(model, copy, &phase);
  }

  Value get(OpBuilder &builder, nn::BucketOp bucket) {
    return builder.create<nn::GetOp>(bucket.getLoc(), bucket.getType(),
                                     bucket.getSymName());
  }

  /// Inserts writes of zeros to the gradients before the loop over
  /// micro-batches, because the loop adds to them.
  void clearGradients(nn::StepOp step, Group &group) {
    auto loop = *step.getBody().getOps<nn::MicroBatchesOp>().begin();
    OpBuilder builder(loop);
    Value zero =
        builder.create<nn::FillOp>(loop.getLoc(), group.gradients.getType(),
                                   builder.getF64FloatAttr(0), nullptr);
    builder.create<nn::SetOp>(loop.getLoc(), group.gradients.getSymName(),
                              zero);
  }

  /// Multiplies, for each beta of the optimizer, the state that holds beta^t by
  /// beta. Returns the bias corrections 1 - beta^t.
  SmallVector<Value> advancePowers(OpBuilder &builder, nn::StepOp step,
                                   Value condition) {
    auto type = RankedTensorType::get({}, builder.getF64Type());
    auto f32 = RankedTensorType::get({}, builder.getF32Type());
    Location loc = step.getLoc();
    SmallVector<Value> corrections;
    for (const train::Power &power : optimizer.powers) {
      auto factor = builder.getF64FloatAttr(power.factor);
      nn::StateOp state = train::addState(step, power.quantity, type);
      state.setCheckpointed(true);
      state.setInitAttr(nn::InitAttr::get(&getContext(), nn::InitKind::Power,
                                          factor, builder.getF64FloatAttr(0),
                                          /*zeroRow=*/-1));
      Value now = builder.create<nn::GetOp>(loc, type, power.quantity);
      auto next = builder.create<nn::AdvancePowerOp>(
          loc, type, f32, now, condition, factor, nullptr);
      builder.create<nn::SetOp>(loc, power.quantity, next.getNext());
      corrections.push_back(next.getCorrection());
    }
    return corrections;
  }

  /// Returns the factors by which a tensor is multiplied before replicas send
  /// it: 1 / the root of the mean square that it had when the phase began. The
  /// states `bucket` hold this root, and 0 before the phase.
  static Value normalize(train::ParameterNumbers &numbers, nn::BucketOp bucket,
                         Value tensor) {
    Value roots[] = {numbers.read(bucket), numbers.rootMeanSquare(tensor)};
    Value root = numbers.compute(
        roots, [](nn::Scalars &s, ArrayRef<Value> x) -> SmallVector<Value> {
          return {s.select(s.isGreater(x[0], s.real(0)), x[0], x[1])};
        })[0];
    numbers.write(bucket, root);
    return numbers.compute(
        root, [](nn::Scalars &s, ArrayRef<Value> x) -> SmallVector<Value> {
          return {s.select(s.isGreater(x[0], s.real(0)), s.div(s.real(1), x[0]),
                           s.real(0))};
        })[0];
  }

  /// Returns the mean of what replicas contribute in the phase.
  nn::AverageOp exchange(OpBuilder &builder, Group &group,
                         const StepScalars &scalars, const LaterPhase &phase,
                         train::ParameterNumbers &numbers) {
    Location loc = group.values.getLoc();
    SmallVector<Value> operands = {get(builder, group.values),
                                   get(builder, group.gradients)};
    for (nn::BucketOp bucket : group.states)
      operands.push_back(get(builder, bucket));
    // A mean that is no state is used only if the step updates.
    Value state =
        phase.exchanged
            ? operands[2 + *phase.exchanged]
            : builder
                  .create<nn::FillOp>(loc, group.values.getType(),
                                      builder.getF64FloatAttr(0), nullptr)
                  .getOutput();
    appendScalars(operands, scalars, group);
    Value factors;
    if (phase.normalizedBy)
      factors = normalize(numbers, group.numbers[*phase.normalizedBy], state);
    auto mean = builder.create<nn::AverageOp>(
        loc, state.getType(), state, operands[1], ValueRange(),
        scalars.condition, scalars.keptErrors, factors,
        builder.getStringAttr(phase.wire),
        phase.isJoint ? builder.getUnitAttr() : UnitAttr(),
        FlatSymbolRefAttr::get(group.values.getSymNameAttr()), ArrayAttr());
    buildBody(mean.getBody(), scalars, group, nullptr,
              [&](nn::Scalars &s, auto &element) -> SmallVector<Value> {
                return {phase.contribution(s, element, strategy)};
              });
    // The mean's state is the first operand. It may be none that is read.
    auto place = static_cast<unsigned>(operands.size());
    Block &body = mean.getBody().front();
    if (phase.exchanged)
      place = static_cast<unsigned>(2 + *phase.exchanged);
    else
      body.addArgument(builder.getF64Type(), loc);
    operands.push_back(state);
    mean.getInputsMutable().assign(train::arrange(
        body, ArrayRef(operands).take_front(body.getNumArguments()),
        {place, 1}));
    if (phase.exchanged && !phase.readsBefore)
      builder.create<nn::SetOp>(
          loc, group.states[*phase.exchanged].getSymName(), mean.getOutput());
    return mean;
  }

  /// Updates the parameters of a group in a later phase.
  void updateGroup(OpBuilder &builder, Group &group, StepScalars scalars,
                   const LaterPhase &phase) {
    Location loc = group.values.getLoc();
    train::ParameterNumbers numbers(builder, group.values, scalars.condition);
    nn::AverageOp average = exchange(builder, group, scalars, phase, numbers);
    Value mean = average.getOutput();
    scalars.factor = Value(); // The contributions are clipped.
    SmallVector<Value> read = {get(builder, group.values), mean};
    SmallVector<nn::BucketOp> written = {group.values};
    // The numbers of what the update changes among the values that are read.
    SmallVector<unsigned> first = {0, 1};
    for (auto [number, bucket] : llvm::enumerate(group.states)) {
      if (phase.exchanged == number)
        continue;
      auto place = static_cast<unsigned>(read.size());
      if (phase.updated == number) {
        first.front() = place;
        written.front() = bucket;
      } else if (llvm::is_contained(phase.changed, number)) {
        first.push_back(place);
        written.push_back(bucket);
      }
      read.push_back(get(builder, bucket));
    }
    if (phase.readsBefore)
      read.push_back(average.getState());
    appendScalars(read, scalars, group);
    if (phase.scaling)
      read.push_back(scaled(builder, group, scalars, &phase, numbers, read));
    if (group.copies && !phase.updated)
      written.push_back(group.copies);
    SmallVector<Type> types;
    for (nn::BucketOp bucket : written)
      types.push_back(bucket.getType());
    SmallVector<Value> states;
    for (unsigned place : ArrayRef(first).drop_front(2))
      states.push_back(read[place]);
    auto update = builder.create<nn::UpdateOp>(
        loc, types, optimizer.rule, read[first.front()], mean, states,
        ValueRange(), scalars.condition, nullptr);
    buildBody(update.getBody(), scalars, group, &phase,
              [&](nn::Scalars &s, auto &element) {
                return phase.update(s, element, strategy);
              });
    update.getInputsMutable().assign(
        train::arrange(update.getBody().front(), read, first));
    for (auto [bucket, value] : llvm::zip(written, update.getOutputs()))
      builder.create<nn::SetOp>(loc, bucket.getSymName(), value);
    for (size_t number : phase.reset)
      train::resetState(builder, group.states[number], scalars.condition);
    if (phase.readsBefore)
      setExchanged(builder, group, average, scalars, *phase.exchanged);
  }

  /// Writes the mean to the state `number`, of which the step has read what it
  /// was before until now. Only an operation that computes the new value may
  /// write it.
  void setExchanged(OpBuilder &builder, Group &group, nn::AverageOp average,
                    const StepScalars &scalars, size_t number) {
    Location loc = average.getLoc();
    Value mean = average.getOutput();
    auto now = builder.create<nn::AverageOp>(
        loc, mean.getType(), average.getState(), mean, ValueRange(),
        scalars.condition, Value(), Value(), builder.getStringAttr("f32"),
        UnitAttr(), FlatSymbolRefAttr(), ArrayAttr());
    Block &body = now.getBody().emplaceBlock();
    nn::Scalars s(loc, &getContext());
    s.setInsertionPointToEnd(&body);
    body.addArgument(s.getF64Type(), loc);
    s.create<nn::ReturnOp>(ValueRange{body.addArgument(s.getF64Type(), loc)});
    builder.create<nn::SetOp>(loc, group.states[number].getSymName(), now);
  }

  /// Appends the scalars that the body of an update has arguments for, in their
  /// order.
  static void appendScalars(SmallVector<Value> &read,
                            const StepScalars &scalars, const Group &group) {
    read.push_back(scalars.lr);
    if (scalars.rates)
      read.push_back(scalars.rates);
    llvm::append_range(read, scalars.corrections);
    if (scalars.factor)
      read.push_back(scalars.factor);
    if (group.takesDecay())
      read.push_back(scalars.weightDecay);
  }

  void updateGroup(OpBuilder &builder, Group &group,
                   const StepScalars &scalars) {
    Location loc = group.values.getLoc();
    Value parameter = get(builder, group.values);
    Value gradient = get(builder, group.gradients);
    ArrayRef<nn::BucketOp> own =
        ArrayRef(group.states).drop_back(optimizer.laterStates);
    SmallVector<Value> states, inputs;
    SmallVector<Type> types(1 + own.size(), group.values.getType());
    for (nn::BucketOp bucket : own)
      states.push_back(get(builder, bucket));
    appendScalars(inputs, scalars, group);
    // A delayed update applies the gradients of the previous step, and stores
    // those of this step. It must store the new gradients even if it must not
    // apply the old ones. Therefore the condition is an input of nn.update's
    // body, and nn.update itself has no condition.
    Value condition = scalars.condition;
    if (strategy.delayedUpdate)
      inputs.push_back(std::exchange(condition, Value()));
    train::ParameterNumbers numbers(builder, group.values, scalars.condition);
    if (optimizer.scaling) {
      SmallVector<Value> read = {parameter, gradient};
      llvm::append_range(read, states);
      llvm::append_range(read, inputs);
      inputs.push_back(scaled(builder, group, scalars, nullptr, numbers, read));
    }
    if (group.copies)
      types.push_back(group.copies.getType());
    auto update = builder.create<nn::UpdateOp>(loc, types, optimizer.rule,
                                               parameter, gradient, states,
                                               inputs, condition, nullptr);
    buildBody(update.getBody(), scalars, group, nullptr,
              [&](nn::Scalars &s, auto &element) {
                return optimizer.update(s, element, strategy);
              });
    SmallVector<nn::BucketOp> buckets = {group.values};
    llvm::append_range(buckets, own);
    if (group.copies)
      buckets.push_back(group.copies);
    for (auto [bucket, value] : llvm::zip(buckets, update.getOutputs()))
      builder.create<nn::SetOp>(loc, bucket.getSymName(), value);
  }

  /// Returns what the update subtracts from each element, before it is
  /// multiplied by the learning rate: the element's direction times the factor
  /// of the parameter to which the element belongs. Writes the optimizer's
  /// numbers. `phase` may be null: the first one. `operands` are those of the
  /// update: the parameter, the gradient, the states and the scalars.
  Value scaled(OpBuilder &builder, Group &group, const StepScalars &scalars,
               const LaterPhase *phase, train::ParameterNumbers &numbers,
               ArrayRef<Value> operands) {
    const train::Scaling &scaling =
        phase ? *phase->scaling : *optimizer.scaling;
    Value parameter = operands[0];
    auto map = [&](train::ElementFunction of) -> Value {
      auto op =
          builder.create<nn::MapOp>(group.values.getLoc(), parameter.getType(),
                                    operands, nn::FunctionAttr(), ArrayAttr());
      buildBody(op.getBody(), scalars, group, phase,
                [&](nn::Scalars &s, auto &element) -> SmallVector<Value> {
                  return {of(s, element, strategy)};
                });
      return op.getOutputs()[0];
    };
    // Values as large as all parameters are computed when they are needed, so
    // that few are in memory at the same time.
    Value direction;
    auto directionOnce = [&] {
      return direction ? direction : direction = map(scaling.direction);
    };
    SmallVector<Value> known, before;
    for (const train::Reduction &one : scaling.reductions)
      known.push_back(numbers.reduce(one.kind, !one.of ? parameter
                                               : one.of == scaling.direction
                                                   ? directionOnce()
                                                   : map(one.of)));
    size_t count = known.size();
    for (nn::BucketOp bucket : group.numbers)
      before.push_back(numbers.read(bucket));
    llvm::append_range(known, before);
    SmallVector<Value> results =
        numbers.compute(known, [&](nn::Scalars &s, ArrayRef<Value> x) {
          return scaling.factor(s, x.take_front(count), x.drop_front(count),
                                strategy);
        });
    for (auto [bucket, old, now] :
         llvm::zip_equal(group.numbers, before, ArrayRef(results).drop_front()))
      if (old != now)
        numbers.write(bucket, now);
    numbers.eraseUnread();
    return numbers.scale(directionOnce(), results.front());
  }

  using ElementBody =
      function_ref<SmallVector<Value>(nn::Scalars &, const train::Element &)>;

  /// Fills `region`, the body of an element-wise operation. The body's
  /// arguments are one element of the parameter, of the gradient and of each
  /// optimizer state, and the scalars. If `region` is the body of an nn.update,
  /// and the optimizer scales steps, the last argument is the scaled step. If
  /// `phase` is not null, the gradient's argument is the new value of the state
  /// that is exchanged in the phase.
  void buildBody(Region &region, const StepScalars &scalars, const Group &group,
                 const LaterPhase *phase, ElementBody body) {
    Operation *op = region.getParentOp();
    Block &block = region.emplaceBlock();
    nn::Scalars s(op->getLoc(), &getContext());
    s.setInsertionPointToEnd(&block);
    auto add = [&]() -> Value {
      return block.addArgument(s.getF64Type(), s.getLoc());
    };
    train::Element element;
    element.parameter = add();
    element.gradient = add();
    SmallVector<Value> states, corrections;
    size_t count = optimizer.states.size();
    // The first phase updates its own states only.
    if (!phase && isa<nn::UpdateOp, nn::MapOp>(op))
      count -= optimizer.laterStates;
    for (size_t i = 0; i < count; ++i)
      states.push_back(phase && phase->exchanged == i ? element.gradient
                                                      : add());
    SmallVector<Value> before = {element.parameter};
    llvm::append_range(before, states);
    Value gradient = element.gradient;
    if (strategy.delayedUpdate)
      element.gradient = states.pop_back_val();
    element.states = states;
    if (phase && phase->readsBefore)
      element.before = add();
    element.lr = add();
    if (group.rate != 1)
      element.lr = s.mul(element.lr, s.real(group.rate));
    if (scalars.rates) {
      element.rates = add();
      if (group.rate != 1)
        element.rates = s.mul(element.rates, s.real(group.rate));
    }
    for (size_t i = 0; i < scalars.corrections.size(); ++i)
      corrections.push_back(add());
    element.corrections = corrections;
    if (scalars.factor)
      element.gradient = s.mul(element.gradient, add());
    if (group.takesDecay())
      element.weightDecay = add();
    else if (group.ownDecay.value_or(0) != 0)
      element.weightDecay = s.real(*group.ownDecay);
    Value labels = strategy.delayedUpdate ? add() : Value();
    if ((phase ? phase->scaling : optimizer.scaling) && isa<nn::UpdateOp>(op))
      element.scaled = add();
    SmallVector<Value> results = body(s, element);
    if (strategy.delayedUpdate && isa<nn::UpdateOp>(op)) {
      Value updates = s.isGreater(labels, s.real(0));
      for (auto [result, old] : llvm::zip(results, before))
        result = s.select(updates, result, old);
      // The delayed update stores the gradient in a state for the next step.
      // Checkpoints contain that state and must not contain infinities or NaN,
      // so store 0 instead of such a value.
      results.push_back(train::finiteOrZero(s, gradient));
    }
    s.create<nn::ReturnOp>(results);
  }

  /// Adds a state that counts updates, and reads it.
  nn::GetOp readCount(OpBuilder &builder, nn::StepOp step) {
    Location loc = step.getLoc();
    auto type = RankedTensorType::get({}, builder.getF64Type());
    train::addState(step, plan::updatesState, type);
    return builder.create<nn::GetOp>(loc, type, plan::updatesState);
  }

  /// Counts this step's update. The count does not wait for the gradients of a
  /// delayed update to be applied: the learning rate of a step depends on how
  /// many steps before it had gradients to apply.
  void countUpdate(OpBuilder &builder, nn::GetOp count, Value condition) {
    Value next = builder.create<nn::CountUpdateOp>(
        count.getLoc(), count.getType(), count, condition, nullptr);
    builder.create<nn::SetOp>(count.getLoc(), count.getState(), next);
  }

  /// Returns the step's learning rate, and adds the output with which the
  /// runtime reads it. The step selects the rate, because the host does not
  /// know how many updates there were until the step before this one is done.
  Value takeRate(OpBuilder &builder, nn::StepOp step, Value count) {
    Type f32 = builder.getF32Type();
    Value rates = heddle::addInput(
        step, nn::PortAttr::get(&getContext(), nn::PortRole::LearningRate),
        RankedTensorType::get({plan::ratesPerStep}, f32));
    Value rate = builder.create<nn::TakeRateOp>(
        step.getLoc(), RankedTensorType::get({}, f32), rates, count, nullptr);
    addOutput(step, nn::PortRole::TakenRate, rate);
    return rate;
  }

  /// Adds an input to the step: a scalar that the runtime writes before the
  /// step.
  Value addInput(nn::StepOp step, StringRef name) {
    auto port = nn::PortAttr::get(&getContext(), nn::PortRole::Value,
                                  StringAttr::get(&getContext(), name));
    Type number = Float32Type::get(&getContext());
    return heddle::addInput(step, port, RankedTensorType::get({}, number));
  }

  void addOutput(nn::StepOp step, nn::PortRole role, Value value) {
    SmallVector<Attribute> outputs(step.getOutputs().getValue());
    outputs.push_back(nn::PortAttr::get(&getContext(), role));
    auto terminator =
        cast<nn::ReturnOp>(step.getBody().front().getTerminator());
    terminator.getOperandsMutable().append(value);
    step.setOutputsAttr(Builder(&getContext()).getArrayAttr(outputs));
    updateFunctionType(step);
  }

  /// Appends the optimizer to the step, which runs in the phase `phase`; null:
  /// the first one.
  void update(nn::ModelOp model, nn::StepOp step, const LaterPhase *phase) {
    SmallVector<Group, 0> groups = train::groupParameters(model, step);
    OpBuilder builder(step.getBody().front().getTerminator());
    SmallVector<Value> gradients;
    for (Group &group : groups) {
      train::addBuckets(step, group, optimizer);
      if (phase && phase->isLocal)
        train::readLocalParameters(step, group, optimizer, strategy);
      if (config::sumsGradients(strategy))
        clearGradients(step, group);
      gradients.push_back(get(builder, group.gradients));
    }
    auto scalar = RankedTensorType::get({}, builder.getF32Type());
    Value norm = builder.create<nn::GlobalNormOp>(
        step.getLoc(), scalar, gradients, /*summed=*/false, nullptr);
    addOutput(step, nn::PortRole::GradNorm, norm);
    Value lossScale = train::readLossScale(builder, step);
    StepScalars scalars;
    auto count = readCount(builder, step);
    scalars.lr = takeRate(builder, step, count);
    if (llvm::any_of(groups, [](const Group &g) { return g.takesDecay(); }))
      scalars.weightDecay = addInput(step, plan::weightDecayPort);
    Value limit;
    if (strategy.gradientClipping > 0)
      limit = addInput(step, plan::maxNormPort);
    if (limit || lossScale)
      scalars.factor = train::gradientFactor(builder, norm, limit, lossScale);
    scalars.condition =
        train::updateCondition(builder, step, norm, lossScale, scalars.factor);
    // The rate is taken by the count before this update.
    if (phase && phase->isLocal)
      scalars.rates =
          train::addRate(builder, step, scalars.lr, scalars.condition,
                         /*synchronizes=*/!phase->updated);
    countUpdate(builder, count, scalars.condition);
    if (strategy.delayedUpdate) {
      scalars.condition =
          delayed.delay(builder, step, scalars.condition, "delayed_labels");
      if (scalars.factor)
        scalars.factor =
            delayed.delay(builder, step, scalars.factor, "delayed_clip");
    }
    scalars.corrections = advancePowers(builder, step, scalars.condition);
    if (phase && phase->errorsOf)
      scalars.keptErrors =
          train::keptErrors(builder, step, phase->errorsOf, scalars.condition);
    for (Group &group : groups)
      phase ? updateGroup(builder, group, scalars, *phase)
            : updateGroup(builder, group, scalars);
    delayed.keep(builder);
  }

  dist::Strategy strategy;
  train::Optimizer optimizer;
  train::DelayedScalars delayed;
};

} // namespace
