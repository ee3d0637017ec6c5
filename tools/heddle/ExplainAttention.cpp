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

/// Returns the number of ranks among which ring attention splits the sequence;
/// 1 if there is none.
static int64_t ringOf(const plan::Plan &plan) {
  // Kernels of generation join parts of a cache by `paged_attention_join`.
  bool isRing = std::any_of(
      plan.kernels.begin(), plan.kernels.end(), [](const plan::Kernel &kernel) {
        return (" " + kernel.ops + " ").find(" attention_join ") !=
               std::string::npos;
      });
  return isRing ? plan.mesh.size(plan::AxisRole::Sequence) : 1;
}

AttentionLayouts::AttentionLayouts(const plan::Plan &plan, double flops)
    : ring(ringOf(plan)), flops(flops), denseFlops(flops) {
  for (const plan::LayoutUse &use : plan.weights.layouts)
    if (const plan::State *state = plan.findConstant(use.state))
      addLayers(use, state->layoutBits());
  for (const plan::Stage &stage : plan.stages)
    for (size_t i = 0; i < plan.kernels.size(); ++i)
      if (i < stage.kernelCalls.size())
        denseFlops +=
            double(stage.kernelCalls[i]) *
            (plan.kernels[i].denseFlops - plan.kernels[i].modelFlops) *
            double(plan.mesh.ranks() / plan.mesh.stages());
}

void AttentionLayouts::addLayers(const plan::LayoutUse &use,
                                 const plan::LayoutBits &bits) {
  const auto blocks = double(bits.blocks());
  std::vector<double> heads;
  for (int64_t head = 0; head < bits.matrices(); ++head)
    heads.push_back(double(bits.count(head)) / (blocks * blocks));
  Layer layer = {"", use.block, heads, {}};
  if (ring > 1)
    shareRing(bits, layer);
  for (const std::string &path : use.layers) {
    layer.path = path;
    layers.push_back(layer);
  }
}

/// Counts the blocks of each rank and ring step. In step s, rank r has the
/// queries of shard r and the keys of shard r - s.
void AttentionLayouts::shareRing(const plan::LayoutBits &bits,
                                 Layer &layer) const {
  const int64_t ofShard = bits.blocks() / ring;
  std::vector<double> counts(ring * ring);
  for (int64_t head = 0; head < bits.matrices(); ++head)
    for (int64_t row = 0; row < bits.blocks(); ++row)
      for (int64_t column = 0; column < bits.blocks(); ++column)
        if (bits.has(head, row, column))
          ++counts[row / ofShard * ring + column / ofShard];
  const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
  double slowest = 0;
  for (int64_t step = 0; step < ring; ++step) {
    double most = 0;
    for (int64_t rank = 0; rank < ring; ++rank)
      most = std::max(most, counts[rank * ring + (rank + ring - step) % ring]);
    slowest += most;
  }
  for (int64_t rank = 0; rank < ring; ++rank)
    layer.ranks.push_back(std::accumulate(counts.begin() + rank * ring,
                                          counts.begin() + (rank + 1) * ring,
                                          0.0) /
                          std::max(all, 1.0));
  layer.busy = slowest > 0 ? all / double(ring) / slowest : 1;
}

double AttentionLayouts::Layer::density() const {
  return std::accumulate(heads.begin(), heads.end(), 0.0) /
         double(heads.size());
}

void AttentionLayouts::addTo(json &json) const {
  if (layers.empty())
    return;
  nlohmann::json all = json::array();
  for (const Layer &layer : layers) {
    nlohmann::json one = {{"layer", layer.path},
                          {"block", layer.block},
                          {"density", layer.density()},
                          {"heads", layer.heads}};
    if (ring > 1) {
      one["ranks"] = layer.ranks;
      one["busy"] = layer.busy;
    }
    all.push_back(std::move(one));
  }
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
  if (ring > 1)
    rows.front().insert(rows.front().end() - 1,
                        {"most of a rank", "ranks busy"});
  for (const Layer &layer : layers) {
    auto [least, most] =
        std::minmax_element(layer.heads.begin(), layer.heads.end());
    rows.push_back({layer.path, std::to_string(layer.block),
                    percent(layer.density()), percent(*least), percent(*most),
                    ""});
    if (ring > 1)
      rows.back().insert(
          rows.back().end() - 1,
          {percent(*std::max_element(layer.ranks.begin(), layer.ranks.end())),
           percent(layer.busy)});
  }
  printTable(rows);
  std::cout << "a step computes " << formatFlops(flops)
            << "; with dense attention it would be " << formatFlops(denseFlops)
            << "\n";
}
