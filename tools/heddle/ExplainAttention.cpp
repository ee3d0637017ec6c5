//===- ExplainAttention.cpp - Layouts of block-sparse attention -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainAttention.h"
#include "ExplainText.h"
#include <algorithm>
#include <iostream>
#include <numeric>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

/// Returns the state that holds a layout. Each pipeline stage has those that
/// its layers read.
static const plan::State *findLayout(const plan::Plan &plan,
                                     const std::string &name) {
  for (const plan::Stage &stage : plan.stages)
    for (const plan::State &state : stage.states)
      if (state.name == name)
        return &state;
  return nullptr;
}

AttentionLayouts::AttentionLayouts(const plan::Plan &plan, double flops)
    : flops(flops), denseFlops(flops) {
  for (const plan::LayoutUse &use : plan.weights.layouts)
    if (const plan::State *state = findLayout(plan, use.state))
      addLayers(use, *state);
  for (const plan::Stage &stage : plan.stages)
    for (size_t i = 0; i < plan.kernels.size(); ++i)
      if (i < stage.kernelCalls.size())
        denseFlops +=
            double(stage.kernelCalls[i]) *
            (plan.kernels[i].denseFlops - plan.kernels[i].modelFlops) *
            double(plan.mesh.ranks() / plan.mesh.stages());
}

void AttentionLayouts::addLayers(const plan::LayoutUse &use,
                                 const plan::State &state) {
  const std::vector<int32_t> &words = state.value.elements;
  const int64_t blocks = state.shape[1];
  const size_t ofHead = size_t(blocks * state.shape[2]);
  std::vector<double> heads;
  for (size_t first = 0; first < words.size(); first += ofHead) {
    int64_t count = 0;
    for (size_t i = first; i < first + ofHead; ++i)
      count += __builtin_popcount(uint32_t(words[i]));
    heads.push_back(double(count) / (double(blocks) * double(blocks)));
  }
  for (const std::string &path : use.layers)
    layers.push_back({path, use.block, heads});
}

double AttentionLayouts::Layer::density() const {
  return std::accumulate(heads.begin(), heads.end(), 0.0) /
         double(heads.size());
}

void AttentionLayouts::addTo(json &json) const {
  if (layers.empty())
    return;
  nlohmann::json all = json::array();
  for (const Layer &layer : layers)
    all.push_back({{"layer", layer.path},
                   {"block", layer.block},
                   {"density", layer.density()},
                   {"heads", layer.heads}});
  json["attention"] = all;
  json["dense_flops_per_step"] = denseFlops;
}

void AttentionLayouts::print() const {
  if (layers.empty())
    return;
  auto percent = [](double share) {
    return formatNumber("%.4g", 100 * share) + " %";
  };
  std::cout << "\nblocks that attention computes\n";
  std::vector<TableRow> rows = {
      {"layer", "block", "density", "least of a head", "most of a head", ""}};
  for (const Layer &layer : layers) {
    auto [least, most] =
        std::minmax_element(layer.heads.begin(), layer.heads.end());
    rows.push_back({layer.path, std::to_string(layer.block),
                    percent(layer.density()), percent(*least), percent(*most),
                    ""});
  }
  printTable(rows);
  std::cout << "a step computes " << formatFlops(flops)
            << "; with dense attention it would be " << formatFlops(denseFlops)
            << "\n";
}
