//===- MemoryTimeline.cpp - Memory over the commands of a step ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryTimeline.h"
#include "Chart.h"
#include "heddle/PlanFormat/MemoryHelp.h"
#include "heddle/PlanFormat/RunChoices.h"
#include <algorithm>
#include <numeric>
#include <set>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

/// The use of the frames of called sequences, as in Memory::owners.
static constexpr char layersOwner[] = "working memory of layers";
/// The planner lays out these buffers after all others.
static constexpr char stagingOwner[] = "communication";

static std::string joined(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ",") + name;
  return text;
}

/// Names a command by what it does.
static std::string nameOf(const plan::Plan &plan,
                          const plan::Command &command) {
  namespace of = plan::command;
  std::string kind = command.name();
  return command.visit(
      [&](const of::Launch &launch) {
        const plan::Kernel &kernel = plan.kernels.at(launch.kernel);
        return kernel.ops.empty() ? kernel.name : kernel.ops;
      },
      [&](const of::Call &call) {
        return plan.sequences.at(call.sequence).name;
      },
      [&](const of::Loop &loop) {
        return "loop of " + std::to_string(loop.count);
      },
      [&](const of::Fragments &) { return std::string("pipeline schedule"); },
      [&](const of::Collective &start) {
        return std::string(plan::nameOf(start.collective.kind)) + " over " +
               joined(start.collective.axes);
      },
      [&](const of::Copy &copy) {
        bool isKnown = copy.source.space != plan::Space::Arg &&
                       copy.target.space != plan::Space::Arg &&
                       copy.source.memory != copy.target.memory;
        return isKnown
                   ? std::string("copy ") + plan::nameOf(copy.source.memory) +
                         " to " + plan::nameOf(copy.target.memory)
                   : kind;
      },
      [&](const of::Send &send) { return "send " + send.channel.name; },
      [&](const of::Receive &receive) {
        return "receive " + receive.channel.name;
      },
      [&](const auto &) { return kind; });
}

namespace {

/// Lists the commands of a sequence in the order in which FrameBuffer::first
/// counts them.
class CommandList {
public:
  CommandList(const plan::Plan &plan, ProgramTimeline &timeline)
      : plan(plan), commands(timeline.commands) {}

  void add(const plan::Sequence &sequence, int64_t depth, int64_t times,
           const std::string &body);
  /// The frames of called sequences, as regions of the frame.
  std::vector<TimelineBuffer> frames;

private:
  void addBodies(const plan::Command &command, int64_t depth, int64_t times);

  const plan::Plan &plan;
  std::vector<TimelineCommand> &commands;
};

} // namespace

void CommandList::add(const plan::Sequence &sequence, int64_t depth,
                      int64_t times, const std::string &body) {
  for (const plan::Command &command : sequence.commands) {
    auto number = int64_t(commands.size());
    commands.push_back(
        {nameOf(plan, command), command.path, depth, times, body});
    if (const auto *call = command.as<plan::command::Call>()) {
      const plan::Sequence &callee = plan.sequences.at(call->sequence);
      if (callee.frameBytes > 0)
        frames.push_back({{layersOwner, call->frameOffset, callee.frameBytes,
                           number, number},
                          callee.name,
                          command.path,
                          callee.frameBytes});
    }
    addBodies(command, depth, times);
  }
}

void CommandList::addBodies(const plan::Command &command, int64_t depth,
                            int64_t times) {
  if (const auto *loop = command.as<plan::command::Loop>())
    add(plan.sequences.at(loop->sequence), depth + 1, times * loop->count,
        "loop");
  const auto *all = command.as<plan::command::Fragments>();
  if (!all)
    return;
  std::vector<int64_t> runs(all->fragments.size());
  for (const plan::ScheduledFragment &entry : all->order)
    ++runs.at(entry.fragment);
  for (size_t i = 0; i < all->fragments.size(); ++i)
    add(plan.sequences.at(all->fragments[i].sequence), depth + 1, runs[i],
        all->fragments[i].name());
}

/// Returns the buffers of one kind of memory, in the order in which the planner
/// lays them out.
static std::vector<TimelineBuffer>
buffersOf(const plan::Sequence &sequence, plan::MemoryKind kind,
          const ProgramTimeline &timeline,
          const std::vector<TimelineBuffer> &frames) {
  std::vector<TimelineBuffer> all;
  auto add = [&](bool isStaging) {
    for (const plan::FrameBuffer &buffer : sequence.buffers) {
      if (buffer.memory != kind || (buffer.owner == stagingOwner) != isStaging)
        continue;
      auto first = size_t(buffer.first);
      bool isKnown = first < timeline.commands.size();
      all.push_back({{buffer.owner, buffer.offset, buffer.reserved,
                      buffer.first, buffer.last, buffer.settled},
                     isKnown ? timeline.commands[first].name : "",
                     buffer.path,
                     buffer.bytes});
    }
  };
  add(false);
  if (kind == plan::MemoryKind::Device)
    all.insert(all.end(), frames.begin(), frames.end());
  add(true);
  return all;
}

/// Returns the bytes of the states of one kind of memory, by owner. The last
/// entry is the padding of the persistent region to pages.
static std::vector<plan::Owner> persistentOwners(const plan::Plan &plan,
                                                 plan::MemoryKind kind) {
  std::set<std::string> names;
  for (const plan::State &state : plan.states)
    if (state.memory == kind)
      names.insert(
          plan::stateOwner(state.role, !state.parameter.empty(), kind));
  std::vector<plan::Owner> owners;
  int64_t rest = plan.memory.persistentBytes[kind];
  for (const plan::Owner &owner : plan.memory.owners)
    if (names.count(owner.name)) {
      owners.push_back(owner);
      rest -= owner.bytes;
    }
  if (rest > 0)
    owners.push_back({"padding to pages", rest});
  return owners;
}

/// Fills in the bytes of each owner at all commands, and the peak.
static void countUse(MemoryTimeline &memory,
                     const std::vector<plan::Owner> &constant,
                     int64_t commands) {
  std::vector<plan::FrameRange> ranges;
  std::set<int64_t> changes = {0};
  std::set<std::string> names;
  for (const TimelineBuffer &buffer : memory.buffers) {
    const plan::FrameRange &range = buffer.range;
    ranges.push_back(range);
    names.insert(range.owner);
    for (int64_t at : {range.first, range.last + 1, range.settled + 1})
      if (at < commands)
        changes.insert(at);
  }
  for (const plan::Owner &owner : constant)
    memory.owners.push_back(owner.name);
  memory.owners.insert(memory.owners.end(), names.begin(), names.end());
  auto useAt = [&](int64_t command) {
    OwnerBytes use = {command, {}};
    for (const plan::Owner &owner : constant)
      use.bytes.push_back(owner.bytes);
    std::map<std::string, int64_t> owners = plan::ownersAt(command, ranges);
    for (const std::string &name : names)
      use.bytes.push_back(owners[name]);
    return use;
  };
  for (int64_t command : changes)
    if (OwnerBytes use = useAt(command);
        memory.steps.empty() || memory.steps.back().bytes != use.bytes)
      memory.steps.push_back(std::move(use));
  memory.peak = plan::peakCommand(ranges);
  memory.atPeak = useAt(memory.peak);
  memory.unused =
      memory.bytes - std::accumulate(memory.atPeak.bytes.begin(),
                                     memory.atPeak.bytes.end(), int64_t(0));
}

/// Names the buffers of inputs and outputs by their keys.
static void nameInputsAndOutputs(const plan::Program &program,
                                 MemoryTimeline &memory) {
  auto rename = [&](const std::vector<plan::Port> &ports, const char *what) {
    for (const plan::Port &port : ports)
      for (TimelineBuffer &buffer : memory.buffers)
        if (port.ref.memory == memory.kind &&
            port.ref.offset == buffer.range.offset && buffer.range.first == 0)
          buffer.name = std::string(what) + " " + port.name;
  };
  rename(program.inputs, "input");
  rename(program.outputs, "output");
}

ProgramTimeline driver::timelineOf(const plan::Plan &plan,
                                   const plan::Program &program) {
  const plan::Sequence &sequence = plan.sequences.at(program.sequence);
  ProgramTimeline timeline;
  timeline.name = program.name;
  CommandList list(plan, timeline);
  list.add(sequence, 0, 1, "");
  for (plan::MemoryKind kind : plan::memoryKinds) {
    MemoryTimeline memory;
    memory.kind = kind;
    memory.bytes = plan.memory.peakBytes(kind);
    if (memory.bytes == 0)
      continue;
    memory.arenaBytes = plan.memory.arenaBytes[kind];
    memory.buffers = buffersOf(sequence, kind, timeline, list.frames);
    nameInputsAndOutputs(program, memory);
    std::vector<plan::Owner> constant = persistentOwners(plan, kind);
    int64_t scratch = plan.memory.scratchBytesPerThread * plan.scratchUsers();
    if (kind == plan::MemoryKind::Device && scratch > 0)
      constant.push_back({plan.device == plan::DeviceKind::Cpu
                              ? plan::scratchOwner
                              : "scratch of kernels",
                          scratch});
    if (kind == plan::MemoryKind::Pinned && plan.memory.stagingBytes > 0)
      constant.push_back(
          {"copies between files and the device", plan.memory.stagingBytes});
    std::stable_sort(constant.begin(), constant.end(),
                     [](const plan::Owner &a, const plan::Owner &b) {
                       return orderOfOwner(a.name) < orderOfOwner(b.name);
                     });
    countUse(memory, constant, int64_t(timeline.commands.size()));
    timeline.memory.push_back(std::move(memory));
  }
  return timeline;
}

ProgramTimeline driver::frameTimelineOf(const plan::Plan &plan,
                                        int64_t number) {
  const plan::Sequence &sequence = plan.sequences.at(number);
  ProgramTimeline timeline;
  timeline.name = sequence.name;
  timeline.isFrame = true;
  CommandList list(plan, timeline);
  list.add(sequence, 0, 1, "");
  MemoryTimeline memory;
  memory.bytes = memory.arenaBytes = sequence.frameBytes;
  memory.buffers = buffersOf(sequence, memory.kind, timeline, list.frames);
  countUse(memory, {}, int64_t(timeline.commands.size()));
  timeline.memory.push_back(std::move(memory));
  return timeline;
}

static json toJson(const MemoryTimeline &memory) {
  json steps = json::array(), buffers = json::array(), owners = json::object();
  for (const OwnerBytes &step : memory.steps) {
    json one = json::array({step.command});
    for (int64_t bytes : step.bytes)
      one.push_back(bytes);
    steps.push_back(std::move(one));
  }
  for (const TimelineBuffer &buffer : memory.buffers)
    buffers.push_back({buffer.name, buffer.path, buffer.range.owner,
                       buffer.bytes, buffer.range.bytes, buffer.range.offset,
                       buffer.range.first, buffer.range.last});
  for (size_t i = 0; i < memory.owners.size(); ++i)
    owners[memory.owners[i]] = memory.atPeak.bytes[i];
  if (memory.unused > 0)
    owners[plan::unusedOwner] = memory.unused;
  return {{"kind", plan::nameOf(memory.kind)},
          {"bytes", memory.bytes},
          {"arena", memory.arenaBytes},
          {"owners", memory.owners},
          {"steps", steps},
          {"peak", {{"command", memory.peak}, {"owners", owners}}},
          {"buffers", buffers}};
}

json driver::toJson(const ProgramTimeline &timeline) {
  json commands = json::array(), memory = json::array();
  for (const TimelineCommand &command : timeline.commands)
    commands.push_back({command.name, command.path, command.depth,
                        command.times, command.body});
  for (const MemoryTimeline &kind : timeline.memory)
    memory.push_back(::toJson(kind));
  return {{"name", timeline.name},
          {"frame", timeline.isFrame},
          {"commands", commands},
          {"memory", memory}};
}
