//===- ChooseMesh.cpp - --mesh auto of a binary that serves ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChooseMesh.h"
#include "ExplainText.h"
#include "heddle/PlanFormat/Format.h"
#include <algorithm>
#include <iostream>

using namespace heddle;
using namespace heddle::driver;

namespace {

/// What a number of tensor ranks comes to.
struct Candidate {
  int64_t tensor = 1;
  std::string why;            ///< Why it is not possible; empty: it is.
  double seconds = 0;         ///< Of a token of one text.
  double communication = 0;   ///< The part of these that ranks wait in.
  double tokensPerSecond = 0; ///< Of all texts, on all ranks of the cluster.
  int64_t memory = 0;         ///< Bytes of a rank.

  /// The larger, the better.
  double score(Goal goal) const {
    return goal == Goal::Latency ? -seconds : tokensPerSecond;
  }
};

} // namespace

static void requireEnough(const config::Settings &settings,
                          const config::Cluster &cluster) {
  if (settings.mode != config::Mode::Serve)
    fail("H0137",
         std::string("--mesh auto is for --mode serve, not for --mode ") +
             config::wordOf(settings.mode),
         "name the axes, as --mesh data=2,tensor=2");
  std::string missing = cluster.flops == 0             ? "flops"
                        : cluster.memoryPerSecond == 0 ? "memory_bandwidth"
                        : cluster.ranksPerNode > 1 && !cluster.intraNode
                            ? "intra_node"
                            : "";
  if (!missing.empty())
    fail("H0137",
         "--mesh auto: " + cluster.file + " does not say " + missing +
             ", on which times depend",
         "add it to the file, or name the axes, as --mesh tensor=2",
         cluster.ranksLocation);
}

/// The program that computes a token of so many texts.
static const plan::Program &decodeOf(const plan::Plan &plan, int64_t texts) {
  std::string name = std::string(plan::nameOf(plan::ProgramKind::Decode)) +
                     "/" + std::to_string(texts);
  auto found = std::find_if(
      plan.programs.begin(), plan.programs.end(),
      [&](const plan::Program &program) { return program.name == name; });
  return found == plan.programs.end()
             ? *plan.findProgram(plan::ProgramKind::Decode)
             : *found;
}

static Candidate judge(CompileJob job, const config::Cluster &cluster,
                       int64_t tensor) {
  Candidate candidate;
  candidate.tensor = tensor;
  job.settings.values.tensor = tensor;
  PlannedJob planned = planJob(job);
  if (planned.plans.empty()) {
    const Diagnostic &error = planned.errors.front();
    candidate.why = error.code + ": " + error.message;
    return candidate;
  }
  plan::Plan &plan = planned.plans.front();
  plan.selectStage(0);
  cost::ClusterCost cost(plan, cluster);
  int64_t texts = plan.serving.maxBatch;
  cost::SequenceTime one = cost.timeOf(plan, decodeOf(plan, 1).sequence);
  cost::SequenceTime all = cost.timeOf(plan, decodeOf(plan, texts).sequence);
  candidate.seconds = one.seconds;
  candidate.communication = one.exposed;
  candidate.tokensPerSecond =
      double(texts) / all.seconds * double(cluster.ranks() / tensor);
  candidate.memory = plan.memory.peakBytes();
  return candidate;
}

static void print(const std::vector<Candidate> &candidates,
                  const Candidate &best, Goal goal, int64_t texts) {
  std::cerr << "mesh: tensor=" << best.tensor << " has "
            << (goal == Goal::Latency ? "the least time of a token"
                                      : "the most tokens a second")
            << "\n";
  for (const Candidate &each : candidates) {
    std::cerr << "  tensor=" << each.tensor << ": ";
    if (each.why.empty())
      std::cerr << formatSeconds(each.seconds) << " a token, "
                << formatSeconds(each.communication) << " of it between ranks; "
                << int64_t(each.tokensPerSecond) << " tokens/s of jobs of "
                << texts << " texts on all ranks; "
                << plan::formatBytes(each.memory) << " a rank\n";
    else
      std::cerr << "not possible: " << each.why << "\n";
  }
}

void driver::chooseMesh(CompileJob &job, const config::Cluster &cluster,
                        Goal goal) {
  requireEnough(job.settings.values, cluster);
  std::vector<Candidate> candidates;
  const Candidate *best = nullptr;
  for (int64_t tensor = 1; tensor <= cluster.ranksPerNode; ++tensor)
    if (cluster.ranksPerNode % tensor == 0)
      candidates.push_back(judge(job, cluster, tensor));
  for (const Candidate &each : candidates)
    if (each.why.empty() && (!best || each.score(goal) > best->score(goal)))
      best = &each;
  if (!best)
    fail("H0138",
         "--mesh auto: no mesh of " + std::to_string(cluster.ranksPerNode) +
             " ranks or fewer is possible; with one rank: " +
             candidates.front().why,
         "give more memory, or a smaller --max-batch or --max-context");
  print(candidates, *best, goal, job.settings.values.maxBatch);
  job.settings.values.tensor = best->tensor;
  job.settings.setOrigin("tensor",
                         {config::Origin::Kind::Derived, "--mesh auto", {}});
}
