//===- Optimizer.cpp - Clips the gradients and updates the parameters -----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Ports.h"
#include "heddle/Transforms/Train/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_TRAINOPTIMIZER
#include "include/heddle/Transforms/Train/Passes.h.inc"
} // namespace heddle

namespace {

/// The parameters that are updated alike, and the buckets of their parts.
struct Group {
  SmallVector<nn::StateOp> parameters;
  bool decays = false;
  nn::BucketOp values, gradients, expAvg, expAvgSq, copies;
};

struct Optimizer : heddle::impl::TrainOptimizerBase<Optimizer> {
  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      strategy = model.getStrategy().getValue();
      for (auto step : llvm::make_early_inc_range(model.getOps<nn::StepOp>()))
        if (step.getKind() == nn::ProgramKind::Train)
          update(model, step);
    }
  }

private:
  SmallVector<Group> groupParameters(nn::ModelOp model) {
    Group decaying, others;
    decaying.decays = true;
    for (auto state : model.getOps<nn::StateOp>())
      if (state.getRole() == "parameter" && state.getTrainable())
        (state.getDecays() ? decaying : others).parameters.push_back(state);
    SmallVector<Group> groups;
    for (Group *group : {&decaying, &others})
      if (!group->parameters.empty())
        groups.push_back(*group);
    return groups;
  }

  /// Adds the moments of a parameter.
  void addMoment(OpBuilder &builder, nn::StateOp parameter, StringRef role) {
    auto moment = builder.create<nn::StateOp>(
        parameter.getLoc(), (parameter.getSymName() + "." + role).str(), role,
        parameter.getType(), parameter.getSymName());
    moment.setCheckpointed(true);
    moment.setDecays(parameter.getDecays());
  }

  nn::BucketOp addBucket(OpBuilder &builder, Group &group, StringRef what,
                         StringRef suffix, Type element) {
    SmallVector<Attribute> members;
    int64_t elements = 0;
    for (nn::StateOp parameter : group.parameters) {
      members.push_back(FlatSymbolRefAttr::get(
          builder.getStringAttr(parameter.getSymName() + suffix)));
      elements +=
          nn::paddedElements(parameter.getTensorType().getNumElements());
    }
    std::string name = (what + (group.decays ? ".decay" : ".no_decay")).str();
    return builder.create<nn::BucketOp>(
        group.parameters.front().getLoc(), name, builder.getArrayAttr(members),
        RankedTensorType::get({elements}, element));
  }

  void addBuckets(nn::StepOp step, Group &group) {
    OpBuilder builder(step);
    for (nn::StateOp parameter : group.parameters)
      for (StringRef role : {"exp_avg", "exp_avg_sq"})
        addMoment(builder, parameter, role);
    Type f32 = builder.getF32Type();
    auto model = step->getParentOfType<nn::ModelOp>();
    auto gradient = model.lookupSymbol<nn::StateOp>(
        (group.parameters.front().getSymName() + ".grad").str());
    group.values = addBucket(builder, group, "parameters", "", f32);
    group.gradients = addBucket(builder, group, "gradients", ".grad",
                                gradient.getTensorType().getElementType());
    group.expAvg = addBucket(builder, group, "exp_avg", ".exp_avg", f32);
    group.expAvgSq =
        addBucket(builder, group, "exp_avg_sq", ".exp_avg_sq", f32);
    if (strategy.precision != config::Precision::FP32)
      group.copies = addBucket(builder, group, "copies",
                               std::string(".") + wordOf(strategy.precision),
                               builder.getBF16Type());
  }

  Value get(OpBuilder &builder, nn::BucketOp bucket) {
    return builder.create<nn::GetOp>(bucket.getLoc(), bucket.getType(),
                                     bucket.getSymName());
  }

  /// With several micro-batches the gradients start from zero.
  void clearGradients(nn::StepOp step, Group &group) {
    auto loop = *step.getBody().getOps<nn::MicroBatchesOp>().begin();
    OpBuilder builder(loop);
    Value zero =
        builder.create<nn::FillOp>(loop.getLoc(), group.gradients.getType(),
                                   builder.getF64FloatAttr(0), nullptr);
    builder.create<nn::SetOp>(loop.getLoc(), group.gradients.getSymName(),
                              zero);
  }

  void updateGroup(OpBuilder &builder, Group &group, ArrayRef<Value> scalars,
                   Value clip, Value condition) {
    Location loc = group.values.getLoc();
    Type flat = group.values.getType();
    auto real = [&](double value) { return builder.getF64FloatAttr(value); };
    auto adamw = builder.create<nn::AdamWOp>(
        loc, flat, flat, flat, group.copies ? group.copies.getType() : Type(),
        get(builder, group.values), get(builder, group.gradients),
        get(builder, group.expAvg), get(builder, group.expAvgSq), scalars[0],
        scalars[1], scalars[2], clip, condition, real(strategy.beta1),
        real(strategy.beta2), real(strategy.eps),
        real(group.decays ? strategy.weightDecay : 0.0),
        strategy.decoupled ? builder.getUnitAttr() : UnitAttr(), nullptr);
    auto set = [&](nn::BucketOp bucket, Value value) {
      builder.create<nn::SetOp>(loc, bucket.getSymName(), value);
    };
    set(group.values, adamw.getNewParameter());
    set(group.expAvg, adamw.getNewExpAvg());
    set(group.expAvgSq, adamw.getNewExpAvgSq());
    if (group.copies)
      set(group.copies, adamw.getCopy());
  }

  /// Adds the run-time scalars to the step's inputs, grad_norm to its results.
  SmallVector<Value> addPorts(nn::StepOp step, Value norm) {
    Builder builder(&getContext());
    Block &block = step.getBody().front();
    auto scalar = RankedTensorType::get({}, builder.getF32Type());
    SmallVector<Attribute> inputs(step.getInputs().getValue());
    SmallVector<Value> scalars;
    for (auto role : {nn::PortRole::LearningRate, nn::PortRole::BiasCorrection1,
                      nn::PortRole::BiasCorrection2}) {
      inputs.push_back(nn::PortAttr::get(&getContext(), role));
      scalars.push_back(block.addArgument(scalar, step.getLoc()));
    }
    SmallVector<Attribute> outputs(step.getOutputs().getValue());
    outputs.push_back(nn::PortAttr::get(&getContext(), nn::PortRole::GradNorm));
    auto terminator = cast<nn::ReturnOp>(block.getTerminator());
    terminator.getOperandsMutable().append(norm);
    step.setInputsAttr(builder.getArrayAttr(inputs));
    step.setOutputsAttr(builder.getArrayAttr(outputs));
    step.setFunctionType(builder.getFunctionType(block.getArgumentTypes(),
                                                 terminator.getOperandTypes()));
    return scalars;
  }

  void update(nn::ModelOp model, nn::StepOp step) {
    SmallVector<Group> groups = groupParameters(model);
    OpBuilder builder(step.getBody().front().getTerminator());
    SmallVector<Value> gradients;
    for (Group &group : groups) {
      addBuckets(step, group);
      if (strategy.accumulate > 1)
        clearGradients(step, group);
      gradients.push_back(get(builder, group.gradients));
    }
    auto scalar = RankedTensorType::get({}, builder.getF32Type());
    Value norm = builder.create<nn::GlobalNormOp>(
        step.getLoc(), scalar, gradients, /*summed=*/false, nullptr);
    Value clip;
    if (strategy.gradientClipping > 0)
      clip = builder.create<nn::ClipCoefficientOp>(
          step.getLoc(), scalar, norm,
          builder.getF64FloatAttr(strategy.gradientClipping), nullptr);
    // Where no label counts nothing is updated.
    Value condition =
        nn::portOf(step.getOutputs(),
                   step.getBody().front().getTerminator()->getOperands(),
                   nn::PortRole::LossWeight);
    SmallVector<Value> scalars = addPorts(step, norm);
    for (Group &group : groups)
      updateGroup(builder, group, scalars, clip, condition);
  }

  dist::Strategy strategy;
};

} // namespace
