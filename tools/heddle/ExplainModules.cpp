//===- ExplainModules.cpp - What the modules of a model cost --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainModules.h"
#include "ExplainProgram.h"
#include "ExplainText.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/runtime/core/ModuleCosts.h"
#include <iostream>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

/// Returns the program with this name; for "", the one that is the forward pass
/// of a micro-batch.
static const plan::Program &programFor(const plan::Plan &plan,
                                       const std::string &name) {
  return name.empty() && !plan.programs.empty() ? rt::forwardProgram(plan)
                                                : programOf(plan, name);
}

json driver::describeModules(const plan::Plan &plan, const std::string &name,
                             int64_t depth) {
  json modules = json::array();
  rt::ModuleCount count = rt::countModules(plan, programFor(plan, name));
  count.model.walk(depth, [&](const rt::ModuleNode &module, int64_t) {
    modules.push_back(module.counts());
  });
  return modules;
}

/// As `1.25 M`; counts below 1000 are exact.
static std::string formatCount(double count) {
  if (count < 1000)
    return std::to_string(int64_t(count));
  std::string text = formatFlops(count);
  return text.substr(0, text.size() - std::string("FLOP").size());
}

void driver::printModules(const plan::Plan &plan, const std::string &name,
                          int64_t depth, int64_t rank) {
  const plan::Program &program = programFor(plan, name);
  rt::ModuleCount count = rt::countModules(plan, program);
  bool trains = plan.findProgram(plan::ProgramKind::Train) &&
                program.kind == plan::ProgramKind::Eval;
  std::cout << "modules on rank " << rank << ", one run of " << program.name
            << (trains ? ": the forward pass of a micro-batch\n" : "\n");
  std::vector<TableRow> rows = {{"module", "parameters", "MACs", "FLOPs",
                                 "model FLOPs", "bytes", "MACs of all"}};
  double all = count.model.total().macs;
  count.model.walk(depth, [&](const rt::ModuleNode &module, int64_t level) {
    rt::ModuleCosts costs = module.total();
    std::string label = module.path.empty() ? plan.family : module.path;
    rows.push_back(
        {std::string(2 * level, ' ') + label, std::to_string(costs.parameters),
         formatCount(costs.macs), formatCount(costs.flops),
         formatCount(costs.modelFlops), plan::formatBytes(int64_t(costs.bytes)),
         formatNumber("%.2f %%", all > 0 ? 100 * costs.macs / all : 0)});
  });
  printTable(rows);
  std::cout << "FLOPs are counted as DeepSpeed's profiler counts them, model "
               "FLOPs as MFU does\n";
  if (count.sharedLaunches > 0)
    std::cout
        << count.sharedLaunches << " of " << count.launches
        << " launches are of kernels that fuse operations of several "
           "modules: each module has its own operations, and the operands "
           "and results that they read and write\n";
}
