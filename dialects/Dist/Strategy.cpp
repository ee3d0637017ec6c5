//===- Strategy.cpp - What the user chose ---------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/Strategy.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"
#include <type_traits>

#include "nlohmann/json.hpp"
#include <cmath>

using namespace mlir;
using namespace heddle::dist;

namespace {

/// Calls `visit(key, field)` for every field, in the order of the header: the
/// one list of keys.
template <typename StrategyT, typename Fn>
void visitFields(StrategyT &s, Fn visit) {
  visit("batch", s.batch);
  visit("micro_batch", s.microBatch);
  visit("accumulate", s.accumulate);
  visit("seq", s.seq);
  visit("precision", s.precision);
  visit("threads", s.threads);
  visit("march", s.march);
  visit("target", s.target);
  visit("recompute", s.recompute);
  visit("schedule", s.schedule);
  visit("virtual_stages", s.virtualStages);
  visit("pipeline_layout", s.pipelineLayout);
  visit("zero", s.zero);
  visit("sequence_parallel", s.sequenceParallel);
  visit("context", s.context);
  visit("collectives", s.collectives);
  visit("communication_type", s.communicationType);
  visit("memory_budget", s.memoryBudget);
  visit("param_persistence_threshold", s.paramPersistenceThreshold);
  visit("model_persistence_threshold", s.modelPersistenceThreshold);
  visit("prefetch_bucket_size", s.prefetchBucketSize);
  visit("max_live_parameters", s.maxLiveParameters);
  visit("max_reuse_distance", s.maxReuseDistance);
  visit("data", s.data);
  visit("tensor", s.tensor);
  visit("pipe", s.pipe);
  visit("sequence", s.sequence);
  visit("optimizer", s.optimizer);
  visit("lr", s.lr);
  visit("beta1", s.beta1);
  visit("beta2", s.beta2);
  visit("eps", s.eps);
  visit("weight_decay", s.weightDecay);
  visit("decoupled", s.decoupled);
  visit("gradient_clipping", s.gradientClipping);
  visit("no_decay", s.noDecay);
  visit("scheduler", s.scheduler);
  visit("scheduler_params", s.schedulerParams);
  visit("keep", s.keep);
}

bool read(Attribute attribute, int64_t &field) {
  auto value = dyn_cast<IntegerAttr>(attribute);
  if (!value || !value.getType().isSignlessInteger(64))
    return false;
  field = value.getInt();
  return true;
}

bool read(Attribute attribute, double &field) {
  auto value = dyn_cast<FloatAttr>(attribute);
  if (!value)
    return false;
  field = value.getValueAsDouble();
  return true;
}

bool read(Attribute attribute, bool &field) {
  auto value = dyn_cast<BoolAttr>(attribute);
  if (!value)
    return false;
  field = value.getValue();
  return true;
}

bool read(Attribute attribute, std::string &field) {
  auto value = dyn_cast<StringAttr>(attribute);
  if (!value)
    return false;
  field = value.getValue().str();
  return true;
}

bool read(Attribute attribute, std::vector<std::string> &field) {
  auto values = dyn_cast<ArrayAttr>(attribute);
  if (!values)
    return false;
  field.clear();
  for (Attribute element : values) {
    field.emplace_back();
    if (!read(element, field.back()))
      return false;
  }
  return true;
}

Attribute write(Builder &builder, int64_t field) {
  return builder.getI64IntegerAttr(field);
}
Attribute write(Builder &builder, double field) {
  return builder.getF64FloatAttr(field);
}
Attribute write(Builder &builder, bool field) {
  return builder.getBoolAttr(field);
}
Attribute write(Builder &builder, const std::string &field) {
  return builder.getStringAttr(field);
}
Attribute write(Builder &builder, const std::vector<std::string> &field) {
  SmallVector<StringRef> values(field.begin(), field.end());
  return builder.getStrArrayAttr(values);
}

const char *typeName(int64_t) { return "an i64 integer"; }
const char *typeName(double) { return "a float"; }
const char *typeName(bool) { return "true or false"; }
const char *typeName(const std::string &) { return "a string"; }
const char *typeName(const std::vector<std::string> &) {
  return "a list of strings";
}

/// The first value that no pass can work with, or "".
std::string checkRanges(const Strategy &strategy) {
  std::pair<const char *, int64_t> counts[] = {
      {"batch", strategy.batch},           {"micro_batch", strategy.microBatch},
      {"accumulate", strategy.accumulate}, {"seq", strategy.seq},
      {"threads", strategy.threads},       {"data", strategy.data},
      {"tensor", strategy.tensor},         {"pipe", strategy.pipe},
      {"sequence", strategy.sequence}};
  for (auto [key, value] : counts)
    if (value < 1)
      return "strategy: \"" + std::string(key) + "\" is " +
             std::to_string(value) + "; at least 1";
  std::pair<const char *, int64_t> amounts[] = {
      {"memory_budget", strategy.memoryBudget},
      {"param_persistence_threshold", strategy.paramPersistenceThreshold},
      {"model_persistence_threshold", strategy.modelPersistenceThreshold},
      {"prefetch_bucket_size", strategy.prefetchBucketSize},
      {"max_live_parameters", strategy.maxLiveParameters},
      {"max_reuse_distance", strategy.maxReuseDistance}};
  for (auto [key, value] : amounts)
    if (value < 0)
      return "strategy: \"" + std::string(key) + "\" is negative";
  if (strategy.precision != "fp32" && strategy.precision != "bf16")
    return "strategy: precision \"" + strategy.precision +
           "\" is not one of fp32, bf16";
  constexpr int64_t mostRanks = 1 << 20;
  int64_t ranks = 1;
  for (int64_t size :
       {strategy.data, strategy.tensor, strategy.pipe, strategy.sequence})
    if (llvm::MulOverflow(ranks, size, ranks) || ranks > mostRanks)
      return "strategy: the mesh has more than " + std::to_string(mostRanks) +
             " ranks";
  std::pair<const char *, double> numbers[] = {
      {"lr", strategy.lr},
      {"beta1", strategy.beta1},
      {"beta2", strategy.beta2},
      {"eps", strategy.eps},
      {"weight_decay", strategy.weightDecay},
      {"gradient_clipping", strategy.gradientClipping}};
  for (auto [key, value] : numbers)
    if (!std::isfinite(value))
      return "strategy: \"" + std::string(key) + "\" is no finite number";
  if (!nlohmann::json::accept(strategy.schedulerParams))
    return "strategy: \"scheduler_params\" is no JSON: " +
           strategy.schedulerParams;
  int64_t rows = 0;
  bool overflows =
      llvm::MulOverflow(strategy.microBatch, strategy.accumulate, rows) ||
      llvm::MulOverflow(rows, strategy.data, rows);
  if (!overflows && rows == strategy.batch)
    return "";
  return "strategy: micro_batch " + std::to_string(strategy.microBatch) +
         " * accumulate " + std::to_string(strategy.accumulate) + " * data " +
         std::to_string(strategy.data) + " is not batch " +
         std::to_string(strategy.batch);
}

} // namespace

Strategy Strategy::fromDictionary(DictionaryAttr dictionary) {
  Strategy strategy;
  visitFields(strategy, [&](StringRef key, auto &field) {
    if (Attribute value = dictionary.get(key))
      read(value, field);
  });
  return strategy;
}

DictionaryAttr Strategy::toDictionary(MLIRContext *context) const {
  Builder builder(context);
  NamedAttrList list;
  visitFields(*this, [&](StringRef key, const auto &field) {
    list.append(key, write(builder, field));
  });
  return list.getDictionary(context);
}

std::string Strategy::verify(DictionaryAttr dictionary) {
  Strategy strategy;
  std::string wrong;
  size_t known = 0;
  visitFields(strategy, [&](StringRef key, auto &field) {
    Attribute value = dictionary.get(key);
    known += value ? 1 : 0;
    if (value && wrong.empty() && !read(value, field))
      wrong = "strategy: \"" + key.str() + "\" must be " + typeName(field);
  });
  if (!wrong.empty())
    return wrong;
  if (known != dictionary.size())
    for (NamedAttribute entry : dictionary) {
      bool found = false;
      visitFields(strategy, [&](StringRef key, auto &) {
        found |= key == entry.getName().getValue();
      });
      if (!found)
        return "strategy: unknown key \"" + entry.getName().str() + "\"";
    }
  return checkRanges(strategy);
}
