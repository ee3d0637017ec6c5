//===- ExplainLayerDrop.cpp - The cost of steps that drop layers ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Removes from a plan the commands that a step skips, and computes the cost of
// what is left.
//
//===----------------------------------------------------------------------===//

#include "ExplainLayerDrop.h"
#include "ExplainSchedule.h"
#include "ExplainText.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/runtime/core/Traffic.h"
#include <algorithm>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

/// Removes the commands that are skipped in a step in which the conditions have
/// the values `kept`.
static void removeSkipped(plan::Stage &stage, const std::vector<bool> &kept) {
  for (plan::Sequence &sequence : stage.sequences) {
    std::vector<plan::Command> left;
    // The new index of each command that is left.
    std::vector<int64_t> indexes(sequence.commands.size());
    for (size_t i = 0; i < indexes.size(); ++i) {
      plan::Command &command = sequence.commands[i];
      const plan::Guard &guard = command.guard;
      if (!guard.isAlways() && kept.at(guard.condition) != guard.value)
        continue;
      indexes[i] = int64_t(left.size());
      left.push_back(std::move(command));
    }
    for (plan::Command &command : left)
      if (auto *wait = command.as<plan::command::Wait>())
        wait->command = indexes.at(wait->command);
    sequence.commands = std::move(left);
  }
}

static plan::Plan withoutSkipped(plan::Plan plan,
                                 const std::vector<bool> &kept) {
  removeSkipped(plan, kept);
  for (plan::Stage &stage : plan.stages)
    removeSkipped(stage, kept);
  return plan;
}

/// Returns the FLOPs of layer number `layer` in a step, summed over all ranks.
static double flopsOfLayer(const plan::Plan &plan, size_t layer) {
  double flops = 0;
  for (const plan::Stage &stage : plan.stages)
    flops += stage.conditions.at(layer).flops *
             double(plan.mesh.ranks() / plan.mesh.stages());
  return flops;
}

LayerDropCost::LayerDropCost(const plan::Plan &plan, int64_t rank, double flops,
                             const cost::ClusterCost *known)
    : plan(plan), rank(rank), flops(flops),
      cost(known && known->hasTimes() ? known : nullptr) {
  const size_t layers = plan.conditions.size();
  if (layers == 0)
    return;
  all = costOf(Kept(layers, true));
  all.seconds = secondsOf(Kept(layers, true));
  none = costOf(Kept(layers, false));
  none.seconds = secondsOf(Kept(layers, false));
  first = expectedIn(0);
  limit = expectedIn(std::numeric_limits<int64_t>::max());
}

LayerDropCost::StepCost LayerDropCost::costOf(const Kept &kept) const {
  StepCost step;
  step.flops = flops;
  for (size_t layer = 0; layer < kept.size(); ++layer)
    if (kept[layer])
      ++step.layers;
    else
      step.flops -= flopsOfLayer(plan, layer);
  const plan::Plan left = withoutSkipped(plan, kept);
  const plan::Program *train = left.findProgram(plan::ProgramKind::Train);
  for (const rt::TrafficLine &line : rt::countTraffic(left, *train, rank))
    step.bytesSent += double(line.bytesSent);
  for (const rt::MoveLine &line : rt::countMoves(left, *train))
    step.bytesMoved += double(line.bytes);
  return step;
}

double LayerDropCost::secondsOf(const Kept &kept) const {
  return cost ? StepSchedule(withoutSkipped(plan, kept), "", cost).stepSeconds()
              : 0;
}

/// Computes the expected cost of step `step`, counted from 0. FLOPs and bytes
/// are sums over the layers, so their expectation is a sum as well. The time of
/// a step is not, because transfers overlap with kernels, and stages wait for
/// each other. Its expectation is the mean of `draws` draws.
LayerDropCost::StepCost LayerDropCost::expectedIn(int64_t step) const {
  constexpr uint64_t draws = 100;
  const size_t layers = plan.conditions.size();
  StepCost expected = all;
  bool isCertain = true;
  for (size_t layer = 0; layer < layers; ++layer) {
    const double probability = plan.conditions[layer].keepProbability(step);
    Kept others(layers, true);
    others[layer] = false;
    const StepCost without = costOf(others);
    const double dropped = 1 - probability;
    expected.layers -= dropped;
    expected.flops -= dropped * (all.flops - without.flops);
    expected.bytesSent -= dropped * (all.bytesSent - without.bytesSent);
    expected.bytesMoved -= dropped * (all.bytesMoved - without.bytesMoved);
    isCertain &= dropped == 0;
  }
  if (!cost || isCertain)
    return expected;
  expected.seconds = 0;
  for (uint64_t seed = 0; seed < draws; ++seed) {
    Kept kept;
    for (const plan::Condition &condition : plan.conditions)
      kept.push_back(condition.holds(seed, step));
    expected.seconds += secondsOf(kept) / double(draws);
  }
  return expected;
}

void LayerDropCost::addTo(json &json) const {
  if (plan.conditions.empty())
    return;
  auto cells = [&](const StepCost &step) {
    nlohmann::json one = {{"layers", step.layers},
                          {"flops", step.flops},
                          {"bytes_sent", step.bytesSent},
                          {"bytes_moved", step.bytesMoved}};
    if (cost)
      one["seconds"] = step.seconds;
    return one;
  };
  json["layer_drop"] = {{"all_kept", cells(all)},
                        {"all_dropped", cells(none)},
                        {"expected_first", cells(first)},
                        {"expected_limit", cells(limit)}};
}

void LayerDropCost::printRow(const char *name, const StepCost &step,
                             std::vector<TableRow> &rows) const {
  auto bytes = [](double value, double most) {
    return most > 0 ? plan::formatBytes(int64_t(value)) : "";
  };
  rows.push_back({name, formatNumber("%.4g", step.layers),
                  bytes(step.bytesSent, all.bytesSent),
                  bytes(step.bytesMoved, all.bytesMoved),
                  cost ? formatSeconds(step.seconds) : "",
                  formatFlops(step.flops)});
}

void LayerDropCost::print() const {
  if (plan.conditions.empty())
    return;
  std::cout << "\nlayer dropping (a step's FLOPs of all ranks, bytes of rank "
            << rank << ")\n";
  std::vector<TableRow> rows = {{"", "layers", all.bytesSent > 0 ? "sent" : "",
                                 all.bytesMoved > 0 ? "moved" : "",
                                 cost ? "time" : "", "FLOPs"}};
  printRow("all layers kept", all, rows);
  printRow("all layers dropped", none, rows);
  const bool isProgressive = plan.conditions.front().progress.has_value();
  if (isProgressive)
    printRow("expected in step 1", first, rows);
  printRow(isProgressive ? "expected in the limit" : "expected", limit, rows);
  printTable(rows);
}
