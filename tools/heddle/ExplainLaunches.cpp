//===- ExplainLaunches.cpp - Launches of steps that drop layers -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainLaunches.h"
#include "ExplainText.h"
#include "heddle/runtime/core/StepLaunches.h"
#include <iostream>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

void driver::addStepLaunches(json &all, const plan::Plan &plan,
                             const plan::Program &program) {
  if (plan.conditions.empty())
    return;
  auto describe = [&](const rt::LaunchCounts &counts) {
    json one = {{"kernels", counts.kernels}};
    if (plan.device == plan::DeviceKind::Cuda)
      one["graphs"] = counts.graphs;
    return one;
  };
  rt::StepLaunches launches = rt::countLaunches(plan, program);
  all["launches"] = {{"all_kept", describe(launches.allKept)},
                     {"all_dropped", describe(launches.allDropped)},
                     {"fewest", describe(launches.fewest)},
                     {"most", describe(launches.most)}};
}

void driver::printStepLaunches(const plan::Plan &plan,
                               const plan::Program &program) {
  json all;
  addStepLaunches(all, plan, program);
  if (all.is_null())
    return;
  const json &launches = all["launches"];
  std::vector<TableRow> rows = {
      {"launches of", "all layers kept", "all dropped", "range"}};
  auto add = [&](const std::string &name, const char *key) {
    auto of = [&](const char *which) { return launches[which][key].dump(); };
    rows.push_back({name, of("all_kept"), of("all_dropped"),
                    of("fewest") + " to " + of("most")});
  };
  add("kernels", "kernels");
  if (plan.device == plan::DeviceKind::Cuda)
    add("CUDA graphs", "graphs");
  std::cout << "\nlaunches per training step, by the layers that it keeps\n";
  printTable(rows);
}
