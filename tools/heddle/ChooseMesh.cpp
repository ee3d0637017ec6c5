//===- ChooseMesh.cpp - --mesh auto for serving ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the mesh of a binary that serves. Compiles a plan for each possible
// mesh, estimates the time per token of each plan with the cost model, and
// takes the best.
//
//===----------------------------------------------------------------------===//

#include "ChooseMesh.h"
#include "ExplainText.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/PlanFormat/Serving.h"
#include <cassert>
#include <iostream>

using namespace heddle;
using namespace heddle::driver;

namespace {

/// A mesh, with the estimated times and the memory of its plan.
struct Candidate {
  int64_t data = 1, tensor = 1;
  std::string why;          ///< Why it is impossible; empty if it is possible.
  double seconds = 0;       ///< Time of a token with one request.
  double communication = 0; ///< The part of `seconds` that ranks wait.
  double tokensPerSecond = 0; ///< Rate with --max-batch requests.
  int64_t memory = 0;         ///< Bytes that a rank needs.

  std::string mesh() const {
    return (data > 1 ? "data=" + std::to_string(data) + "," : "") +
           "tensor=" + std::to_string(tensor);
  }

  /// Returns how well the mesh reaches the goal; larger is better.
  double score(Goal goal) const {
    return goal == Goal::Latency ? -seconds : tokensPerSecond;
  }
};

} // namespace

static void requireEnough(const config::Settings &settings,
                          const config::Cluster &cluster, Goal goal) {
  if (settings.mode != config::Mode::Serve)
    fail("H0137",
         std::string("--mesh auto is for --mode serve, not for --mode ") +
             config::wordOf(settings.mode),
         "name the axes, as --mesh data=2,tensor=2");
  std::string missing =
      cluster.flops == 0                               ? "flops"
      : cluster.memoryPerSecond == 0                   ? "memory_bandwidth"
      : cluster.ranksPerNode > 1 && !cluster.intraNode ? "intra_node"
      : goal == Goal::Throughput && cluster.nodes > 1 && !cluster.interNode
          ? "inter_node"
          : "";
  if (!missing.empty())
    fail("H0137",
         "--mesh auto: " + cluster.file + " does not say " + missing +
             ", on which times depend",
         "add it to the file, or name the axes, as --mesh tensor=2",
         cluster.ranksLocation);
}

/// Returns the program that computes one token for each of `requests` requests:
/// the smallest decode program that has room for so many requests.
static const plan::Program &decodeOf(const plan::Plan &plan, int64_t requests) {
  const plan::Program *best = nullptr;
  int64_t least = 0;
  for (const plan::Program &program : plan.programs) {
    if (program.kind != plan::ProgramKind::Decode)
      continue;
    for (const plan::Port &port : program.inputs) {
      if (port.role != plan::PortRole::Positions ||
          port.shape.at(0) < requests || (best && port.shape[0] >= least))
        continue;
      best = &program;
      least = port.shape[0];
    }
  }
  assert(best && "the largest has a row for each text");
  return *best;
}

/// Sets the mesh of the served model, and the same mesh for the draft model.
static void setMesh(CompileJob &job, int64_t data, int64_t tensor) {
  for (config::ResolvedSettings *settings :
       {&job.settings, &job.draftSettings}) {
    config::Settings &values = settings->values;
    values.data = data;
    values.tensor = tensor;
    values.batch = values.microBatch * values.accumulate * data;
    for (const char *key : {"data", "tensor"})
      settings->setOrigin(key,
                          {config::Origin::Kind::Derived, "--mesh auto", {}});
  }
}

/// Returns the seconds per token of the communication that the plan's programs
/// do not contain. Before each run, rank 0 sends a message to all other ranks
/// that says which requests each group of tensor ranks computes. After the run,
/// rank 0 receives logits from the groups other than its own. Sending and
/// receiving share rank 0's link.
static double secondsApart(const cost::ClusterCost &cost,
                           const plan::Plan &plan, int64_t requests) {
  const int64_t ranks = plan.mesh.ranks();
  const int64_t groups = plan::groupsOf(plan);
  if (ranks == 1)
    return 0;
  // Only count the bytes of the page table, which are most of the bytes of rank
  // 0's message.
  int64_t pages = plan.serving.maxContext / plan::cachePageTokens;
  double seconds =
      cost.secondsOf({"data", "tensor"}, "send", /*calls=*/1,
                     (ranks - 1) * requests * pages * int64_t(sizeof(int32_t)));
  int64_t ofOtherGroups = requests - (requests + groups - 1) / groups;
  if (ofOtherGroups > 0)
    seconds +=
        cost.secondsOf({"data"}, "send", /*calls=*/1,
                       ofOtherGroups * plan.vocabSize * int64_t(sizeof(float)));
  return seconds;
}

static Candidate judge(CompileJob job, const config::Cluster &cluster,
                       int64_t data, int64_t tensor) {
  Candidate candidate;
  candidate.data = data;
  candidate.tensor = tensor;
  setMesh(job, data, tensor);
  PlannedJob planned = planJob(job);
  if (planned.plans.empty()) {
    const Diagnostic &error = planned.errors.front();
    candidate.why = error.code + ": " + error.message;
    return candidate;
  }
  plan::Plan &plan = planned.plans.front();
  plan.selectStage(0);
  cost::ClusterCost cost(plan, cluster);
  int64_t requests = plan.serving.maxBatch;
  cost::SequenceTime one = cost.timeOf(plan, decodeOf(plan, 1).sequence);
  cost::SequenceTime all = cost.timeOf(plan, decodeOf(plan, requests).sequence);
  double apart = secondsApart(cost, plan, /*requests=*/1);
  candidate.seconds = one.seconds + apart;
  candidate.communication = one.exposed + apart;
  candidate.tokensPerSecond =
      double(data * requests) /
      (all.seconds + secondsApart(cost, plan, data * requests));
  for (const plan::Plan &each : planned.plans)
    candidate.memory += each.memory.peakBytes();
  return candidate;
}

static void print(const std::vector<Candidate> &candidates,
                  const Candidate &best, Goal goal, int64_t requests) {
  std::cerr << "mesh: " << best.mesh() << " has "
            << (goal == Goal::Latency ? "the least time of a token"
                                      : "the most tokens a second")
            << "\n";
  for (const Candidate &each : candidates) {
    std::cerr << "  " << each.mesh() << ": ";
    if (each.why.empty())
      std::cerr << formatSeconds(each.seconds) << " a token, "
                << formatSeconds(each.communication) << " of it between ranks; "
                << int64_t(each.tokensPerSecond) << " tokens/s of " << requests
                << " texts; " << plan::formatBytes(each.memory) << " a rank\n";
    else
      std::cerr << "not possible: " << each.why << "\n";
  }
}

/// The meshes that may be best. Tensor-parallel ranks stay within a node. For
/// low latency there is only one group of tensor-parallel ranks: one group
/// computes a whole request, so more groups would not make it faster.
static std::vector<Candidate>
candidatesOf(const CompileJob &job, const config::Cluster &cluster, Goal goal) {
  std::vector<Candidate> candidates;
  for (int64_t tensor = 1; tensor <= cluster.ranksPerNode; ++tensor) {
    if (cluster.ranksPerNode % tensor != 0)
      continue;
    int64_t most = goal == Goal::Latency ? 1 : cluster.ranks() / tensor;
    for (int64_t data = 1; data <= most; ++data)
      if (most % data == 0 && job.settings.values.maxBatch % data == 0)
        candidates.push_back(judge(job, cluster, data, tensor));
  }
  return candidates;
}

void driver::chooseMesh(CompileJob &job, const config::Cluster &cluster,
                        Goal goal) {
  requireEnough(job.settings.values, cluster, goal);
  std::vector<Candidate> candidates = candidatesOf(job, cluster, goal);
  const Candidate *best = nullptr;
  // If several meshes have the best score, the one with the fewest ranks is
  // chosen.
  auto isBetter = [&](const Candidate &a, const Candidate &b) {
    return std::pair(a.score(goal), -a.data * a.tensor) >
           std::pair(b.score(goal), -b.data * b.tensor);
  };
  for (const Candidate &each : candidates)
    if (each.why.empty() && (!best || isBetter(each, *best)))
      best = &each;
  if (!best)
    fail("H0138",
         "--mesh auto: no mesh of " +
             std::to_string(goal == Goal::Latency ? cluster.ranksPerNode
                                                  : cluster.ranks()) +
             " ranks or fewer is possible; with one rank: " +
             candidates.front().why,
         "give more memory, or a smaller --max-batch or --max-context");
  print(candidates, *best, goal, job.settings.values.maxBatch);
  setMesh(job, best->data, best->tensor);
}
