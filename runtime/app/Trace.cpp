//===- Trace.cpp - A timeline of launches ---------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Trace.h"
#include "heddle/runtime/core/Traffic.h"
#include "heddle/runtime/io/File.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::rt;

/// A wait is named after what it waits for. For a collective, this function
/// returns its kind, axes and module path, such as `all_reduce data,seq for
/// optimizer`; for an event, the name of the stream that records it.
static std::string describe(const plan::Command &command) {
  const auto *start = command.as<plan::command::Collective>();
  if (!start)
    return plan::nameOf(command.stream);
  std::string text = plan::nameOf(start->collective.kind);
  for (size_t i = 0; i < start->collective.axes.size(); ++i)
    text += (i == 0 ? " " : ",") + start->collective.axes[i];
  return command.path.empty() ? text : text + " for " + command.path;
}

std::string heddle::rt::launchName(const plan::Plan &plan,
                                   const LaunchInfo &info) {
  using namespace plan;
  const Command &command = *info.command;
  std::string name = command.name();
  return command.visit(
      [&](const command::Launch &launch) {
        return plan.kernels[launch.kernel].name;
      },
      [&](const command::Collective &) { return describe(command); },
      [&](const command::Record &) { return name + " " + describe(command); },
      [&](const command::Wait &) {
        return name + " " + describe(*info.awaited);
      },
      [&](const command::Send &send) { return name + " " + send.channel.name; },
      [&](const command::Receive &receive) {
        return name + " " + receive.channel.name;
      },
      [&](const command::Flush &flush) { return name + " " + flush.channel; },
      [&](const auto &) { return name; });
}

/// Returns the `args` of a trace event: the details of its command, such as
/// FLOPs and bytes.
static nlohmann::json argumentsOf(const plan::Plan &plan,
                                  const LaunchInfo &info) {
  nlohmann::json arguments = {{"path", info.path()},
                              {"command", info.command->name()},
                              {"stream", plan::nameOf(info.command->stream)}};
  if (info.kernel() >= 0) {
    const plan::Kernel &kernel = plan.kernels[info.kernel()];
    arguments["ops"] = kernel.ops;
    arguments["flops"] = kernel.flops;
    arguments["bytes"] = kernel.bytes;
  }
  if (const auto *copy = info.command->as<plan::command::Copy>())
    arguments["bytes"] = copy->target.bytes;
  if (const auto *copy = info.command->as<plan::command::CopyRows>())
    arguments["bytes"] = bytesMoved(*copy);
  if (const plan::Fragment *fragment = info.fragment.kind) {
    arguments["fragment"] = info.fragment.name();
    arguments["kind"] = plan::nameOf(fragment->kind);
    arguments["chunk"] = fragment->chunk;
    arguments["micro_batch"] = info.fragment.microBatch;
  }
  return arguments;
}

/// Returns the track of the timeline on which a command is drawn: 3 for kernels
/// on the host's cores, 2 for asynchronous copies to files, 1 for other
/// asynchronous copies, 0 for the rest. They are separate because these
/// commands may overlap in time.
static int64_t lineOf(const plan::Command &command) {
  if (command.stream == plan::Stream::Host)
    return 3;
  const auto *copy = command.as<plan::command::Copy>();
  bool copiesRows = command.as<plan::command::CopyRows>();
  if (!(copy || copiesRows) || !plan::copiesBeside(command.stream))
    return 0;
  return copy && copy->target.memory == plan::MemoryKind::File ? 2 : 1;
}

Trace::Trace(const std::string &name,
             const std::vector<const LoadedProgram *> &programs, int64_t rank)
    : path(io::fileOfRank(name, rank)), rank(rank) {
  if (path.empty())
    return;
  // Check now that the file can be written. The trace replaces an existing file
  // only at the end, when it is complete.
  io::requireWritableOutput(path);
  steps.reserve(maxSteps);
  for (const LoadedProgram *program : programs)
    stride = std::max(stride, program->commands().size());
  times.resize(maxSteps * stride);
}

LaunchTime *Trace::beginStep(const LoadedProgram &program) {
  current = &program;
  if (path.empty() || steps.size() == maxSteps)
    return nullptr;
  return times.data() + steps.size() * stride;
}

void Trace::endStep(int64_t step) {
  if (!path.empty() && steps.size() < maxSteps)
    steps.push_back({step, current});
}

std::string Trace::write(const plan::Plan &plan) {
  using nlohmann::json;
  if (path.empty())
    return path;
  json events = json::array();
  int64_t stage = plan.mesh.stageOf(rank);
  auto first = std::find_if(times.begin(), times.end(),
                            [](const auto &time) { return !time.isSkipped(); });
  int64_t origin = first == times.end() ? 0 : first->begin;
  for (size_t s = 0; s < steps.size(); ++s) {
    const plan::Program &program = steps[s].program->program();
    const CommandList &commands = steps[s].program->commands();
    const LaunchTime *of = times.data() + s * stride;
    for (size_t i = 0; i < commands.size(); ++i) {
      if (of[i].isSkipped())
        continue;
      json arguments = argumentsOf(plan, commands.info(i));
      arguments["step"] = steps[s].number;
      arguments["rank"] = rank;
      arguments["stage"] = stage;
      events.push_back({{"name", launchName(plan, commands.info(i))},
                        {"cat", plan::nameOf(program.kind)},
                        {"ph", "X"},
                        {"pid", rank},
                        {"tid", lineOf(*commands.info(i).command)},
                        {"ts", double(of[i].begin - origin) / 1000},
                        {"dur", double(of[i].end - of[i].begin) / 1000},
                        {"args", arguments}});
    }
  }
  json trace = {{"traceEvents", events},
                {"otherData", {{"plan", plan.hash}, {"rank", rank}}}};
  io::writeText(path, trace.dump() + "\n");
  return path;
}
