//===- CommandList.cpp - A program with resolved addresses ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/CommandList.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/RowChoice.h"

#include <map>

using namespace heddle;
using namespace heddle::rt;

using plan::Command;
using plan::Ref;
using plan::Space;
using plan::Term;

[[noreturn]] static void malformed(const std::string &what) {
  fail("H0385", "the plan is malformed: " + what, "compile the binary again");
}

/// The address of the byte at `offset` in a region. Throws if some of the
/// `bytes` bytes from there on are outside of the region.
static Address inside(const Region &region, int64_t offset, int64_t bytes,
                      const std::string &what) {
  if (offset < 0 || bytes < 0 || offset > region.bytes ||
      bytes > region.bytes - offset)
    malformed(what + " reaches outside of its region");
  return region.begin + offset;
}

namespace heddle::rt {

/// Walks the command sequences of a program and appends their commands to a
/// command list.
class Resolver {
public:
  Resolver(const plan::Plan &plan, const Machine &machine, CommandList &list)
      : plan(plan), device(machine.device), regions(machine.regions),
        participant(machine.participant), list(list) {
    kernels.reserve(plan.kernels.size());
    for (const plan::Kernel &kernel : plan.kernels) {
      kernels.push_back(machine.kernels.find(kernel.name));
      if (!kernels.back())
        malformed("there is no code for kernel '" + kernel.name + "'");
    }
  }

  void resolve(const plan::Program &program);

private:
  /// An operand as an offset in a region, before its bounds are checked.
  struct OperandOffset {
    Space space = Space::Frame;
    plan::MemoryKind memory = plan::MemoryKind::Device;
    int64_t offset = 0;
  };
  /// What one execution of a command sequence uses: its arguments, its frame
  /// (the memory of its own values), and the current iteration of the loop
  /// around it.
  struct Context {
    std::vector<OperandOffset> args;
    std::vector<int64_t> scalars;
    int64_t frame = 0;
    int64_t loopIndex = 0;
    int64_t slot = 0;
    int depth = 0;
  };

  /// A command and its position.
  struct Here {
    const Command &command;
    const plan::Sequence &sequence;
    const Context &context;
    size_t index;
    /// For each command of the sequence: the handle of the collective that the
    /// command starts, or of the event that it records; -1 for other commands.
    /// A wait command refers to the command that it waits for, and takes the
    /// handle from here.
    std::vector<int64_t> &tokens;
  };

  void walk(int64_t number, const Context &context);
  plan::Guard enterGuard(const plan::Guard &inner);
  void enter(const plan::command::Entry &entry, const Context &context,
             int64_t sequence);
  OperandOffset locate(const Ref &ref, const Context &context) const;
  int64_t sum(int64_t constant, const std::vector<Term> &terms,
              const Context &context) const;
  Address address(const Ref &ref, const Context &context) const;
  void add(const plan::command::Launch &launch, const Here &here);
  void add(const plan::command::Call &call, const Here &here);
  void add(const plan::command::Loop &loop, const Here &here);
  void add(const plan::command::Fragments &fragments, const Here &here);
  void add(const plan::command::Copy &copy, const Here &here);
  void add(const plan::command::CopyRows &copy, const Here &here);
  void add(const plan::command::Fill &fill, const Here &here);
  void add(const plan::command::Collective &collective, const Here &here);
  void add(const plan::command::Record &record, const Here &here);
  void add(const plan::command::Wait &wait, const Here &here);
  void add(const plan::command::Settle &settle, const Here &here);
  void add(const plan::command::Send &send, const Here &here);
  void add(const plan::command::Receive &receive, const Here &here);
  void add(const plan::command::Flush &flush, const Here &here);
  void append(const Command &command, const CommandList::Action &action,
              const Command *awaited = nullptr);
  void setToken(const Here &here, int64_t number) const;
  Event carriedEvent(int64_t number);
  Communication &communication(const Command &command) const;

  const plan::Plan &plan;
  Device &device;
  const Regions &regions;
  const Participant &participant;
  CommandList &list;
  std::vector<KernelHandle> kernels;
  /// For each kernel launch: the index of its first operand in `list.refs`, and
  /// of its first scalar in `list.scalars`.
  std::vector<std::pair<size_t, size_t>> starts;
  /// The channels to other ranks on which the command list sends. The key is
  /// the name of the channel, and the value is its handle in `Communication`.
  std::map<std::string, int64_t> sending;
  LaunchInfo::Fragment running;       ///< The pipeline fragment being resolved.
  const std::string *layer = nullptr; ///< The layer being resolved.
  plan::Guard guard; ///< The guard of the calls around the current command.
  /// Events that a run of the program records for the next run. The key is the
  /// number by which the plan names the event.
  std::map<int64_t, Event> carried;
};

void Resolver::resolve(const plan::Program &program) {
  list.communication = participant.communication;
  walk(program.sequence, Context());
  // `refs` and `scalars` do not grow any more, so that addresses of their
  // elements can be stored.
  for (size_t i = 0; i < starts.size(); ++i) {
    list.launches[i].refs = list.refs.data() + starts[i].first;
    list.launches[i].scalars = list.scalars.data() + starts[i].second;
  }
  const plan::Memory &memory = plan.memory;
  list.scratch.stride = memory.scratchBytesPerThread;
  list.scratch.base = static_cast<char *>(device.resolve(inside(
      regions.arena[plan::MemoryKind::Device], memory.scratchOffset,
      memory.scratchBytesPerThread * plan.scratchUsers(), "scratch memory")));
}

void Resolver::walk(int64_t number, const Context &context) {
  if (number < 0 || number >= int64_t(plan.sequences.size()))
    malformed("there is no sequence " + std::to_string(number));
  if (context.depth > 64)
    malformed("sequences call each other without end");
  const plan::Sequence &sequence = plan.sequences[number];
  if (int64_t(context.args.size()) < sequence.numArgs ||
      int64_t(context.scalars.size()) < sequence.numScalarArgs)
    malformed("a call of '" + sequence.name + "' lacks arguments");
  inside(regions.arena[plan::MemoryKind::Device], context.frame,
         sequence.frameBytes, "the frame of '" + sequence.name + "'");
  std::vector<int64_t> tokens;
  for (size_t i = 0; i < sequence.commands.size(); ++i) {
    const Command &command = sequence.commands[i];
    Here here = {command, sequence, context, i, tokens};
    plan::Guard around = enterGuard(command.guard);
    command.visit([&](const auto &what) { add(what, here); });
    guard = around;
  }
}

/// Sets the guard of the commands that follow. Returns the guard so far.
plan::Guard Resolver::enterGuard(const plan::Guard &inner) {
  plan::Guard around = guard;
  if (inner.isAlways() || inner == around)
    return around;
  if (inner.condition >= int64_t(plan.conditions.size()))
    malformed("a command names condition " + std::to_string(inner.condition) +
              " of " + std::to_string(plan.conditions.size()));
  if (!around.isAlways())
    malformed("a command depends on another condition than its call");
  guard = inner;
  return around;
}

/// Resolves the commands of a called sequence. The operands of `entry`, the
/// call, become the arguments of the sequence.
void Resolver::enter(const plan::command::Entry &entry, const Context &context,
                     int64_t sequence) {
  Context inner;
  for (const Ref &ref : entry.refs)
    inner.args.push_back(locate(ref, context));
  for (const plan::Scalar &value : entry.scalars)
    inner.scalars.push_back(sum(value.constant, value.terms, context));
  inner.frame = context.frame + entry.frameOffset;
  inner.loopIndex = context.loopIndex;
  inner.slot = context.slot;
  inner.depth = context.depth + 1;
  walk(sequence, inner);
}

void Resolver::add(const plan::command::Call &call, const Here &here) {
  const std::string *around = layer;
  if (!here.command.path.empty())
    layer = &here.command.path;
  enter(call, here.context, call.sequence);
  layer = around;
}

void Resolver::add(const plan::command::Loop &loop, const Here &here) {
  Context context = here.context;
  for (context.loopIndex = 0; context.loopIndex < loop.count;
       ++context.loopIndex)
    enter(loop, context, loop.sequence);
}

void Resolver::add(const plan::command::Fragments &all, const Here &here) {
  Context context = here.context;
  for (auto [number, microBatch] : all.order) {
    if (number < 0 || number >= int64_t(all.fragments.size()) ||
        microBatch < 0 || all.fragments[number].slots < 1)
      malformed("its schedule has micro-batch " + std::to_string(microBatch) +
                " of fragment " + std::to_string(number));
    const plan::Fragment &fragment = all.fragments[number];
    running = {&fragment, microBatch};
    context.loopIndex = microBatch;
    context.slot = microBatch % fragment.slots;
    enter(all, context, fragment.sequence);
  }
  running = {};
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

Resolver::OperandOffset Resolver::locate(const Ref &ref,
                                         const Context &context) const {
  int64_t offset = sum(ref.offset, ref.terms, context);
  if (ref.space == Space::Persistent)
    return {Space::Persistent, ref.memory, offset};
  if (ref.space == Space::Frame) {
    bool isDevice = ref.memory == plan::MemoryKind::Device;
    return {Space::Frame, ref.memory, (isDevice ? context.frame : 0) + offset};
  }
  if (ref.index < 0 || ref.index >= int64_t(context.args.size()))
    malformed("an operand names argument " + std::to_string(ref.index) +
              " of " + std::to_string(context.args.size()));
  OperandOffset operand = context.args[ref.index];
  operand.offset += offset;
  return operand;
}

Address Resolver::address(const Ref &ref, const Context &context) const {
  OperandOffset operand = locate(ref, context);
  bool lasts = operand.space == Space::Persistent;
  return inside((lasts ? regions.persistent : regions.arena)[operand.memory],
                operand.offset, ref.bytes, "an operand");
}

int64_t Resolver::sum(int64_t constant, const std::vector<Term> &terms,
                      const Context &context) const {
  for (const Term &term : terms) {
    int64_t value = 0;
    switch (term.kind) {
    case Term::Kind::LoopIndex:
      value = context.loopIndex;
      break;
    case Term::Kind::Slot:
      value = context.slot;
      break;
    case Term::Kind::Coordinate:
      value = plan.mesh.coordinate(participant.rank, term.axes);
      break;
    case Term::Kind::Arg:
      if (term.value < 0 || term.value >= int64_t(context.scalars.size()))
        malformed("an operand names an integer argument that is not there");
      value = context.scalars[term.value];
      break;
    }
    constant += value * term.factor;
  }
  return constant;
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

void Resolver::add(const plan::command::Launch &launch, const Here &here) {
  if (launch.kernel < 0 || launch.kernel >= int64_t(kernels.size()))
    malformed("there is no kernel " + std::to_string(launch.kernel));
  // The plan reserves scratch memory for the kernels that this pipeline stage
  // launches. Kernels of other stages may need more. If this stage launches
  // such a kernel, the plan is malformed.
  const plan::Kernel &kernel = plan.kernels[launch.kernel];
  if (kernel.scratchBytes > plan.memory.scratchBytesPerThread)
    malformed("kernel '" + kernel.name + "' has too little scratch memory");
  if (!launch.modules.empty() && launch.modules.size() != kernel.shares.size())
    malformed("a launch of '" + kernel.name + "' names the wrong modules");
  starts.emplace_back(list.refs.size(), list.scalars.size());
  for (const plan::Scalar &value : launch.scalars)
    list.scalars.push_back(sum(value.constant, value.terms, here.context));
  for (const Ref &ref : launch.refs)
    list.refs.push_back(device.resolve(address(ref, here.context)));
  list.launches.push_back({kernels[launch.kernel], nullptr, nullptr,
                           int64_t(launch.refs.size()),
                           int64_t(launch.scalars.size()), &here.command.path});
  list.infos.push_back({&here.command, nullptr, running, layer});
  list.guards.push_back(guard);
}

void Resolver::append(const Command &command, const CommandList::Action &action,
                      const Command *awaited) {
  starts.emplace_back(list.refs.size(), list.scalars.size());
  list.actions.push_back(action);
  list.launches.push_back({});
  list.infos.push_back({&command, awaited, running, layer});
  list.guards.push_back(guard);
}

void Resolver::setToken(const Here &here, int64_t number) const {
  here.tokens.resize(here.sequence.commands.size(), -1);
  here.tokens[here.index] = number;
}

Communication &Resolver::communication(const Command &command) const {
  if (!participant.communication)
    malformed("one rank alone is to talk to others" +
              (command.path.empty() ? "" : " for " + command.path));
  return *participant.communication;
}

void Resolver::add(const plan::command::Copy &copy, const Here &here) {
  if (copy.target.bytes != copy.source.bytes)
    malformed("a copy has the wrong operands");
  append(here.command, CommandList::Copy{here.command.stream,
                                         address(copy.target, here.context),
                                         address(copy.source, here.context),
                                         copy.target.bytes});
}

void Resolver::add(const plan::command::CopyRows &copy, const Here &here) {
  constexpr int64_t idBytes = sizeof(int32_t);
  if (copy.rowBytes < 1 || copy.rowBytes > io::RowChoice::mostRowBytes ||
      copy.source.memory == plan::MemoryKind::Device ||
      copy.source.bytes % copy.rowBytes != 0 || copy.ids.bytes % idBytes != 0 ||
      copy.target.bytes % copy.rowBytes != 0 ||
      copy.target.bytes / copy.rowBytes != copy.ids.bytes / idBytes)
    malformed("a copy of rows has the wrong operands");
  RowCopy rows;
  rows.target = address(copy.target, here.context);
  rows.source = address(copy.source, here.context);
  rows.ids = address(copy.ids, here.context);
  rows.rowBytes = copy.rowBytes;
  rows.tableRows = copy.source.bytes / copy.rowBytes;
  rows.count = copy.ids.bytes / idBytes;
  if (copy.first)
    rows.first = sum(copy.first->constant, copy.first->terms, here.context);
  append(here.command, CommandList::CopyRows{here.command.stream, rows});
}

void Resolver::add(const plan::command::Fill &fill, const Here &here) {
  append(here.command, CommandList::Fill{here.command.stream,
                                         address(fill.target, here.context),
                                         fill.target.bytes});
}

void Resolver::add(const plan::command::Collective &start, const Here &here) {
  CollectiveBuffers buffers;
  buffers.target = address(start.target, here.context);
  buffers.targetBytes = start.target.bytes;
  buffers.source = address(start.source, here.context);
  buffers.sourceBytes = start.source.bytes;
  buffers.staging = address(start.staging, here.context);
  buffers.stagingBytes = start.staging.bytes;
  int64_t number =
      communication(here.command).addCollective(start.collective, buffers);
  append(here.command, CommandList::Start{number});
  setToken(here, number);
}

void Resolver::add(const plan::command::Record &record, const Here &here) {
  Event event =
      record.carried < 0 ? device.makeEvent() : carriedEvent(record.carried);
  append(here.command, CommandList::Record{here.command.stream, event});
  setToken(here, event.number);
}

/// Appends a wait for the event with the number `settle.number`. If the current
/// run of the program has not recorded this event yet, the stream waits for the
/// record of the previous run.
void Resolver::add(const plan::command::Settle &settle, const Here &here) {
  append(here.command, CommandList::WaitForEvent{here.command.stream,
                                                 carriedEvent(settle.number)});
}

Event Resolver::carriedEvent(int64_t number) {
  auto [found, isNew] = carried.try_emplace(number);
  if (isNew)
    found->second = device.makeEvent();
  list.carries = true;
  return found->second;
}

void Resolver::add(const plan::command::Wait &wait, const Here &here) {
  if (wait.command < 0 || wait.command >= int64_t(here.tokens.size()) ||
      here.tokens[wait.command] < 0)
    malformed("'" + here.sequence.name + "' waits for what it did not start");
  const Command &awaited = here.sequence.commands[wait.command];
  int64_t number = here.tokens[wait.command];
  CommandList::Action action = CommandList::WaitForCollective{number};
  if (awaited.as<plan::command::Record>())
    action = CommandList::WaitForEvent{here.command.stream, {number}};
  append(here.command, action, &awaited);
}

void Resolver::add(const plan::command::Send &send, const Here &here) {
  int64_t channel = communication(here.command).addChannel(send.channel);
  append(here.command,
         CommandList::Send{channel, address(send.data, here.context),
                           send.data.bytes});
  if (sending.emplace(send.channel.name, channel).second)
    list.sending.push_back(channel);
}

void Resolver::add(const plan::command::Receive &receive, const Here &here) {
  int64_t channel = communication(here.command).addChannel(receive.channel);
  append(here.command,
         CommandList::Receive{channel, address(receive.data, here.context),
                              receive.data.bytes});
}

/// Appends a flush of a channel. If the list has no send on the channel so far,
/// there is nothing to wait for.
void Resolver::add(const plan::command::Flush &flush, const Here &here) {
  auto channel = sending.find(flush.channel);
  if (channel != sending.end())
    append(here.command, CommandList::Flush{channel->second, flush.left});
}

} // namespace heddle::rt

CommandList::CommandList(const plan::Plan &plan, const plan::Program &program,
                         const Machine &machine) {
  Resolver(plan, machine, *this).resolve(program);
  capture(machine.device);
}

void CommandList::act(Device &device, const Action &action) const {
  std::visit(
      plan::Overloads{
          [&](const Copy &copy) {
            device.copy(copy.stream, copy.target, copy.source, copy.bytes);
          },
          [&](const CopyRows &copy) {
            device.copyRows(copy.stream, copy.rows);
          },
          [&](const Fill &fill) {
            device.fill(fill.stream, fill.target, 0, fill.bytes);
          },
          [&](const Record &record) {
            device.record(record.stream, record.event);
          },
          [&](const WaitForEvent &wait) {
            device.wait(wait.stream, wait.event);
          },
          [&](const Start &start) { communication->start(start.collective); },
          [&](const WaitForCollective &wait) {
            communication->wait(wait.collective);
          },
          [&](const Send &send) {
            communication->send(send.channel, send.data, send.bytes);
          },
          [&](const Receive &receive) {
            communication->receive(receive.channel, receive.data,
                                   receive.bytes);
          },
          [&](const Flush &flush) {
            communication->flush(flush.channel, flush.left);
          }},
      action);
}

bool CommandList::isOfDevice(const Action &action) const {
  if (const auto *start = std::get_if<Start>(&action))
    return communication->isOfDevices(start->collective);
  if (const auto *wait = std::get_if<WaitForCollective>(&action))
    return communication->isOfDevices(wait->collective);
  if (std::holds_alternative<Send>(action) ||
      std::holds_alternative<Receive>(action) ||
      std::holds_alternative<Flush>(action))
    return communication->sendsFromDevices();
  return true;
}

int64_t CommandList::sentByDevices() const {
  return communication ? communication->bytesOfDevices() : 0;
}

void CommandList::capture(Device &device) {
  size_t action = 0;
  auto takesHost = [&](size_t entry) {
    return !launches[entry].kernel && !isOfDevice(actions[action]);
  };
  for (size_t i = 0; i < launches.size();) {
    EntryGroup group;
    group.first = i;
    group.firstAction = action;
    group.ofHost = takesHost(i);
    group.guard = guards[i];
    while (i < launches.size() && takesHost(i) == group.ofHost &&
           guards[i] == group.guard)
      action += !launches[i++].kernel;
    group.end = i;
    if (!group.ofHost)
      group.work = device.capture([&] {
        int64_t before = sentByDevices();
        submit(device, group, nullptr);
        group.sentBytes = sentByDevices() - before;
        if (communication)
          communication->countOfDevices(-group.sentBytes);
      });
    groups.push_back(group);
  }
  // Capturing a graph calls `send`, but sends nothing yet. Flush the channels,
  // so that no later flush counts these calls as sends that are in progress.
  for (int64_t channel : sending)
    if (communication->sendsFromDevices())
      communication->flush(channel, 0);
}

size_t CommandList::submissions() const {
  size_t all = 0;
  for (const EntryGroup &group : groups)
    if (!group.ofHost)
      all += group.work ? 1 : group.end - group.first;
  return all;
}

void CommandList::submit(Device &device, const EntryGroup &group,
                         LaunchTime *times) const {
  const Action *action = actions.data() + group.firstAction;
  for (size_t i = group.first; i < group.end; ++i) {
    auto submitOne = [&] {
      if (launches[i].kernel)
        device.submit(infos[i].command->stream, launches[i], scratch);
      else
        act(device, *action);
    };
    if (times) // By reference: a copy would allocate.
      times[i] = measure(device, streamOf(i, action), std::ref(submitOne));
    else
      submitOne();
    action += !launches[i].kernel;
  }
}

void CommandList::run(Device &device, const Outcomes &outcomes,
                      LaunchTime *times) const {
  io::OffloadTimes *copies = device.fileTimes();
  if (times && copies)
    copies->note(true);
  auto isSkipped = [&](const plan::Guard &guard) {
    return !guard.isAlways() &&
           guard.value != (outcomes.empty() || outcomes[guard.condition]);
  };
  for (const EntryGroup &group : groups)
    if (isSkipped(group.guard)) {
      for (size_t i = group.first; times && i < group.end; ++i)
        times[i] = LaunchTime::skipped();
    } else if (group.work && !times) {
      device.repeat(*group.work);
      if (communication)
        communication->countOfDevices(group.sentBytes);
    } else {
      submit(device, group, times);
    }
  for (int64_t channel : sending)
    communication->flush(channel, 0);
  if (!times || !copies)
    return;
  timeFileCopies(device, times, launches.size());
  copies->note(false);
}

Address heddle::rt::resolvePort(const plan::Port &port,
                                const Regions &regions) {
  int64_t bytes = plan::byteSize(port.type);
  for (int64_t extent : port.shape)
    bytes *= extent;
  const Ref &ref = port.ref;
  if (ref.space == Space::Arg)
    malformed("port '" + port.name + "' is an argument");
  bool lasts = ref.space == Space::Persistent;
  return inside((lasts ? regions.persistent : regions.arena)[ref.memory],
                ref.offset, bytes, "port '" + port.name + "'");
}
