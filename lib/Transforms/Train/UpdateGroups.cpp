//===- UpdateGroups.cpp - Parameters that are updated alike ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UpdateGroups.h"
#include "GradientPhases.h"
#include "ParameterGroups.h"
#include "dialects/Dist/Wire.h"
#include "heddle/Transforms/Common/States.h"
#include <map>

using namespace mlir;
using namespace heddle;
using namespace heddle::train;

/// Returns a new group, which has no parameters yet, with the name and the
/// settings that apply to `parameter`.
static UpdateGroup groupOf(const ParameterGroups &groups,
                           nn::StateOp parameter) {
  UpdateGroup group;
  group.name = parameter.getDecays() ? "decay" : "no_decay";
  group.decays = parameter.getDecays();
  std::optional<size_t> number = groups.of(parameter);
  if (!number)
    return group;
  const config::ParameterGroup &own = groups[*number];
  group.name = "group" + std::to_string(*number) + "." + group.name;
  if (own.weightDecay) {
    group.name = "group" + std::to_string(*number);
    group.ownDecay = *own.weightDecay;
  }
  if (own.lr)
    group.rate = *own.lr;
  return group;
}

SmallVector<UpdateGroup, 0> train::groupParameters(nn::ModelOp model,
                                                   nn::StepOp step) {
  ParameterGroups known(model);
  llvm::StringMap<std::string> quantized; // The group of --moq, by parameter.
  for (auto state : model.getOps<nn::StateOp>())
    if (state.getQuantizer())
      quantized[*state.getParameter()] =
          "." + state.getQuantizer()->getGroup().str();
  std::map<std::string, UpdateGroup> groups;
  GradientPhases phases(model);
  for (auto state : model.getOps<nn::StateOp>())
    if (state.getRole() == nn::StateRole::Parameter && state.getTrainable() &&
        phases.trains(step, state)) {
      UpdateGroup group = groupOf(known, state);
      group.name += phases.suffix(state);
      auto quantizer = quantized.find(state.getSymName());
      if (quantizer != quantized.end()) {
        group.name += quantizer->second;
        group.isQuantized = true;
      }
      groups.try_emplace(group.name, group)
          .first->second.parameters.push_back(state);
    }
  SmallVector<UpdateGroup, 0> sorted;
  for (auto &[name, group] : groups)
    sorted.push_back(std::move(group));
  llvm::stable_sort(sorted, [](const UpdateGroup &a, const UpdateGroup &b) {
    return StringRef(a.name).starts_with("group") <
           StringRef(b.name).starts_with("group");
  });
  return sorted;
}

/// Adds a state that the optimizer has for a parameter.
static void addState(OpBuilder &builder, nn::StateOp parameter,
                     const ParameterState &own) {
  auto state = builder.create<nn::StateOp>(
      parameter.getLoc(), (parameter.getSymName() + "." + own.quantity).str(),
      nn::StateRole::Optimizer, parameter.getType(), parameter.getSymName());
  if (own.held != state.getHolding())
    state.setHeld(own.held);
  state.setCheckpointed(true);
  state.setDecays(parameter.getDecays());
}

/// Adds a number that the optimizer has for a parameter.
static void addNumber(OpBuilder &builder, nn::StateOp parameter,
                      const ParameterNumber &own) {
  auto state = builder.create<nn::StateOp>(
      parameter.getLoc(), (parameter.getSymName() + "." + own.quantity).str(),
      nn::StateRole::Optimizer, RankedTensorType::get({}, builder.getF32Type()),
      parameter.getSymName());
  state.setHeld(nn::Holding::Whole);
  state.setCheckpointed(true);
  state.setInitAttr(nn::InitAttr::get(
      builder.getContext(), nn::InitKind::Constant,
      builder.getF64FloatAttr(own.first), builder.getF64FloatAttr(0),
      /*zeroRow=*/-1));
}

static nn::BucketOp addBucket(OpBuilder &builder, UpdateGroup &group,
                              StringRef what, StringRef suffix, Type element) {
  std::string name = (what + "." + group.name).str();
  auto model = group.parameters.front()->getParentOfType<nn::ModelOp>();
  if (auto known = model.lookupSymbol<nn::BucketOp>(name))
    return known; // An earlier train program has added it.
  SmallVector<Attribute> members;
  int64_t elements = 0;
  for (nn::StateOp parameter : group.parameters) {
    members.push_back(FlatSymbolRefAttr::get(
        builder.getStringAttr(parameter.getSymName() + suffix)));
    auto member = model.lookupSymbol<nn::StateOp>(
        cast<FlatSymbolRefAttr>(members.back()).getAttr());
    elements += nn::paddedElements(member.getTensorType().getNumElements());
  }
  return builder.create<nn::BucketOp>(
      locationOf(group.parameters), name, builder.getArrayAttr(members),
      RankedTensorType::get({elements}, element));
}

void train::addBuckets(nn::StepOp step, UpdateGroup &group,
                       const Optimizer &optimizer) {
  OpBuilder builder(step);
  auto model = step->getParentOfType<nn::ModelOp>();
  // An earlier train program may have added the states.
  if (!model.lookupSymbol("parameters." + group.name))
    for (nn::StateOp parameter : group.parameters) {
      for (const ParameterState &own : optimizer.states)
        addState(builder, parameter, own);
      for (const ParameterNumber &own : optimizer.numbers)
        addNumber(builder, parameter, own);
    }
  const dist::Strategy &strategy = model.getStrategy().getValue();
  Type f32 = builder.getF32Type();
  auto gradient = model.lookupSymbol<nn::StateOp>(
      (group.parameters.front().getSymName() + ".grad").str());
  group.values = addBucket(builder, group, "parameters", "", f32);
  group.gradients = addBucket(builder, group, "gradients", ".grad",
                              gradient.getTensorType().getElementType());
  for (const ParameterState &own : optimizer.states)
    group.states.push_back(addBucket(builder, group, own.quantity,
                                     ("." + own.quantity).str(), f32));
  for (const ParameterNumber &own : optimizer.numbers)
    group.numbers.push_back(addBucket(builder, group, own.quantity,
                                      ("." + own.quantity).str(), f32));
  if (!group.isQuantized && !dist::computeType(strategy.precision).isNarrow())
    return;
  nn::BucketOp copies = addBucket(builder, group, "copies",
                                  std::string(".") + wordOf(strategy.precision),
                                  dist::computeType(strategy, builder));
  // The pass `train-quantize-copies` writes the other ones.
  if (!group.isQuantized)
    group.copies = copies;
}
