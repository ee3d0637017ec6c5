//===- ExplainPlan.cpp - A rank of a plan as JSON -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainPlan.h"
#include "ExplainCluster.h"
#include "ExplainLaunches.h"
#include "ExplainProgram.h"

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

static json meshOf(const plan::Mesh &mesh) {
  json sizes = json::object();
  for (const plan::Mesh::Axis &axis : mesh.axes)
    sizes[axis.name] = axis.size;
  return sizes;
}

/// Returns the program whose step is described: the training program, or the
/// first program if the plan does not train.
const plan::Program *driver::mainProgram(const plan::Plan &plan) {
  if (const plan::Program *train = plan.findProgram(plan::ProgramKind::Train))
    return train;
  return plan.programs.empty() ? nullptr : &plan.programs.front();
}

/// Returns how often a kernel is launched in a training step.
int64_t driver::callsOf(const plan::Plan &plan, size_t kernel) {
  return kernel < plan.kernelCalls.size() ? plan.kernelCalls[kernel] : 0;
}

/// Returns what a rank sends in a step. Each entry sums up the collectives or
/// messages of one kind over the same mesh axes.
std::vector<rt::TrafficLine> driver::trafficOf(const plan::Plan &plan,
                                               int64_t rank) {
  const plan::Program *program = mainProgram(plan);
  return program ? rt::countTraffic(plan, *program, rank)
                 : std::vector<rt::TrafficLine>();
}

/// Returns the bytes that a rank copies in a step between kinds of memory.
std::vector<rt::MoveLine> driver::movesOf(const plan::Plan &plan) {
  const plan::Program *program = mainProgram(plan);
  return program ? rt::countMoves(plan, *program) : std::vector<rt::MoveLine>();
}

rt::HostUpdates driver::hostUpdatesOf(const plan::Plan &plan) {
  const plan::Program *program = mainProgram(plan);
  return program ? rt::countHostUpdates(plan, *program) : rt::HostUpdates();
}

static json hostUpdatesJson(const plan::Plan &plan) {
  rt::HostUpdates host = hostUpdatesOf(plan);
  return {{"elements", host.elements},
          {"to_host", host.toHost},
          {"to_device", host.toDevice},
          {"beside_kernels", host.besideKernels}};
}

static json movesJson(const plan::Plan &plan) {
  json moves = json::array();
  for (const rt::MoveLine &line : movesOf(plan)) {
    json of = json::object();
    for (const auto &[role, bytes] : line.bytesOf)
      of[plan::nameOf(role)] = bytes;
    moves.push_back({{"from", plan::nameOf(line.from)},
                     {"to", plan::nameOf(line.to)},
                     {"copies", line.copies},
                     {"bytes", line.bytes},
                     {"bytes_of_parts", line.bytesOfParts},
                     {"beside_kernels", line.besideKernels},
                     {"most_under_way", line.mostUnderWay},
                     {"of", of}});
  }
  return moves;
}

/// Returns the number of floating-point operations of a step, summed over all
/// ranks.
double driver::flopsPerStep(const plan::Plan &plan) {
  const plan::Program *program = mainProgram(plan);
  double flops = 0;
  for (const plan::Stage &stage : plan.stages)
    for (const plan::Program &same : stage.programs)
      if (same.kind == program->kind && same.phase.name == program->phase.name)
        flops += same.flops * double(plan.mesh.ranks() / plan.mesh.stages());
  return flops;
}

/// Describes communication as JSON. All collectives of one kind over the same
/// mesh axes share an entry, which has their total traffic. Within the entry,
/// the traffic is listed by what needs it, for example `nn.linear` or the
/// module `h.0`.
static json communicationJson(const plan::Plan &plan, int64_t rank,
                              const cost::ClusterCost *cost) {
  std::vector<rt::TrafficLine> lines = trafficOf(plan, rank);
  json communication = json::array();
  for (const rt::TrafficLine &sum : rt::sumByKind(lines)) {
    json reasons = json::array();
    for (const rt::TrafficLine &line : lines) {
      if (line.axes != sum.axes || line.kind != sum.kind)
        continue;
      json &reason = reasons.emplace_back(json{{"reason", line.reason},
                                               {"calls", line.calls},
                                               {"bytes_sent", line.bytesSent}});
      if (line.kind != "send" && line.kind != "receive")
        reason["type"] = plan::nameOf(line.wire);
    }
    communication.push_back({{"axis", sum.axes},
                             {"kind", sum.kind},
                             {"calls", sum.calls},
                             {"bytes_sent", sum.bytesSent},
                             {"reasons", reasons}});
    if (cost && cost->linkOf(axesOf(sum)))
      communication.back()["seconds"] = secondsOf(sum, *cost);
  }
  return communication;
}

RankExplanation::RankExplanation(const plan::Plan &plan, int64_t rank,
                                 const cost::Cluster *cluster,
                                 const std::string &trace)
    : plan(plan), rank(rank), cluster(cluster),
      known(cluster ? std::make_optional<cost::ClusterCost>(plan, *cluster)
                    : std::nullopt),
      program(mainProgram(plan)), schedule(plan, trace, cost()),
      bound(program ? StepBound(plan, *program, rank, cost()) : StepBound()),
      drops(plan, rank, flopsPerStep(plan), cost()),
      layouts(plan, flopsPerStep(plan)) {}

json RankExplanation::toJson() const {
  json phases = json::array(), kernels = json::array();
  for (const std::string &phase : plan.phases)
    phases.push_back({{"name", phase}});
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    kernels.push_back({{"name", plan.kernels[i].name},
                       {"ops", plan.kernels[i].ops},
                       {"flops", plan.kernels[i].flops},
                       {"bytes", plan.kernels[i].bytes},
                       {"calls", callsOf(plan, i)}});
  json owners = json::object();
  for (const plan::Owner &owner : plan.memory.owners)
    owners[owner.name] = owner.bytes;
  json all = {{"plan", plan.hash},
              {"target", plan.target},
              {"parameters", plan.parameters},
              {"mesh", meshOf(plan.mesh)},
              {"ranks", plan.mesh.ranks()},
              {"rank", rank},
              {"stage", plan.mesh.stageOf(rank)},
              {"phases", phases},
              {"programs", listPrograms(plan, rank, cost())},
              {"kernels", kernels},
              {"memory",
               {{"arena", plan.memory.arenaBytes.inMemory()},
                {"persistent", plan.memory.persistentBytes.inMemory()},
                {"peak", plan.memory.peakBytes()},
                {"kinds", plan::kindsOf(plan.memory)},
                {"files", plan::filesOf(plan.memory)},
                {"owners", owners}}},
              {"moves", movesJson(plan)},
              {"host_updates", hostUpdatesJson(plan)},
              {"communication", communicationJson(plan, rank, cost())},
              {"flops_per_step", flopsPerStep(plan)}};
  schedule.addTo(all);
  all["bound"] = bound.toJson();
  if (program)
    addStepLaunches(all, plan, *program);
  drops.addTo(all);
  layouts.addTo(all);
  if (cluster)
    all["cluster"] = clusterJson(plan, *cluster);
  return all;
}
