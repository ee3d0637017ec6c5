//===- CommandList.cpp - A program with every address resolved ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/CommandList.h"
#include "heddle/runtime/core/Traffic.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <chrono>
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

/// The address of `offset` in a region, if `bytes` from there stay inside.
static Address inside(const Region &region, int64_t offset, int64_t bytes,
                      const std::string &what) {
  if (offset < 0 || bytes < 0 || offset > region.bytes ||
      bytes > region.bytes - offset)
    malformed(what + " reaches outside of its region");
  return region.begin + offset;
}

namespace heddle::rt {

/// Walks the sequences of one program and appends to its command list.
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

  void resolve(const plan::Program &program, int64_t threads);

private:
  /// An operand's place, as an offset, so that what is reached through it can
  /// be checked.
  struct Place {
    Space space = Space::Frame;
    plan::MemoryKind memory = plan::MemoryKind::Device;
    int64_t offset = 0;
  };
  /// Where a sequence runs.
  struct Context {
    std::vector<Place> args;
    std::vector<int64_t> scalars;
    int64_t frame = 0;
    int64_t loopIndex = 0;
    int64_t slot = 0;
    int depth = 0;
  };

  void walk(int64_t number, const Context &context);
  void enter(const Command &command, const Context &context, int64_t target);
  void enterLoop(const Command &command, Context context);
  void enterFragments(const Command &command, Context context);
  Place locate(const Ref &ref, const Context &context) const;
  int64_t sum(int64_t constant, const std::vector<Term> &terms,
              const Context &context) const;
  Address address(const Ref &ref, const Context &context) const;
  void appendLaunch(const Command &command, const Context &context);
  void appendMove(const Command &command, const Context &context);
  int64_t appendCollective(const Command &command, const Context &context);
  int64_t appendRecord(const Command &command);
  void appendWait(const Command &command, const plan::Sequence &sequence,
                  const std::vector<int64_t> &tokens);
  void appendTransfer(const Command &command, const Context &context);
  void appendFlush(const Command &command);
  void append(const Command &command, CommandList::Action action,
              const Command *awaited = nullptr);
  Communication &communication(const Command &command) const;

  const plan::Plan &plan;
  Device &device;
  const Regions &regions;
  const Participant &participant;
  CommandList &list;
  std::vector<KernelHandle> kernels;
  std::vector<std::pair<size_t, size_t>> starts; ///< Into refs and scalars.
  /// The channels that something was sent on, by name.
  std::map<std::string, int64_t> sending;
  std::string_view running; ///< The fragment, where it is in one.
};

void Resolver::resolve(const plan::Program &program, int64_t threads) {
  list.communication = participant.communication;
  walk(program.sequence, Context());
  // The tables have stopped growing: their addresses hold from here on.
  for (size_t i = 0; i < starts.size(); ++i) {
    list.launches[i].refs = list.refs.data() + starts[i].first;
    list.launches[i].scalars = list.scalars.data() + starts[i].second;
  }
  const plan::Memory &memory = plan.memory;
  list.scratch.stride = memory.scratchBytesPerThread;
  list.scratch.base = static_cast<char *>(device.resolve(
      inside(regions.arena[plan::MemoryKind::Device], memory.scratchOffset,
             memory.scratchBytesPerThread * threads, "scratch memory")));
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
  // What each command gives to wait for, where it does.
  std::vector<int64_t> tokens;
  for (size_t i = 0; i < sequence.commands.size(); ++i) {
    const Command &command = sequence.commands[i];
    switch (command.kind) {
    case Command::Kind::Launch:
      appendLaunch(command, context);
      break;
    case Command::Kind::Copy:
    case Command::Kind::Fill:
      appendMove(command, context);
      break;
    case Command::Kind::Call:
      enter(command, context, command.target);
      break;
    case Command::Kind::Loop:
      enterLoop(command, context);
      break;
    case Command::Kind::Fragments:
      enterFragments(command, context);
      break;
    case Command::Kind::Collective:
      tokens.resize(sequence.commands.size(), -1);
      tokens[i] = appendCollective(command, context);
      break;
    case Command::Kind::Record:
      tokens.resize(sequence.commands.size(), -1);
      tokens[i] = appendRecord(command);
      break;
    case Command::Kind::Wait:
      appendWait(command, sequence, tokens);
      break;
    case Command::Kind::Send:
    case Command::Kind::Receive:
      appendTransfer(command, context);
      break;
    case Command::Kind::Flush:
      appendFlush(command);
      break;
    }
  }
}

/// Runs `target` on the command's operands as the context sees them.
void Resolver::enter(const Command &command, const Context &context,
                     int64_t target) {
  Context inner;
  for (const Ref &ref : command.refs)
    inner.args.push_back(locate(ref, context));
  for (const plan::Scalar &value : command.scalars)
    inner.scalars.push_back(sum(value.constant, value.terms, context));
  inner.frame = context.frame + command.frameOffset;
  inner.loopIndex = context.loopIndex;
  inner.slot = context.slot;
  inner.depth = context.depth + 1;
  walk(target, inner);
}

void Resolver::enterLoop(const Command &command, Context context) {
  for (context.loopIndex = 0; context.loopIndex < command.count;
       ++context.loopIndex)
    enter(command, context, command.target);
}

void Resolver::enterFragments(const Command &command, Context context) {
  for (std::string_view rest = command.line; !rest.empty();) {
    std::string word(rest.substr(0, rest.find(' ')));
    running = rest.substr(0, word.size());
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (word.empty())
      continue;
    auto [kind, microBatch] = parseFragment(word);
    auto isMeant = [&, &kind = kind](const plan::Fragment &fragment) {
      return fragment.kind == kind;
    };
    auto fragment = std::find_if(command.fragments.begin(),
                                 command.fragments.end(), isMeant);
    if (microBatch < 0 || fragment == command.fragments.end() ||
        fragment->slots < 1)
      malformed("its schedule has a fragment '" + word + "'");
    context.loopIndex = microBatch;
    context.slot = microBatch % fragment->slots;
    enter(command, context, fragment->sequence);
  }
  running = {};
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

Resolver::Place Resolver::locate(const Ref &ref, const Context &context) const {
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
  Place place = context.args[ref.index];
  place.offset += offset;
  return place;
}

Address Resolver::address(const Ref &ref, const Context &context) const {
  Place place = locate(ref, context);
  bool lasts = place.space == Space::Persistent;
  return inside((lasts ? regions.persistent : regions.arena)[place.memory],
                place.offset, ref.bytes, "an operand");
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

void Resolver::appendLaunch(const Command &command, const Context &context) {
  if (command.target < 0 || command.target >= int64_t(kernels.size()))
    malformed("there is no kernel " + std::to_string(command.target));
  // Kernels that only other stages launch may need more than is here.
  const plan::Kernel &kernel = plan.kernels[command.target];
  if (kernel.scratchBytes > plan.memory.scratchBytesPerThread)
    malformed("kernel '" + kernel.name + "' has too little scratch memory");
  starts.emplace_back(list.refs.size(), list.scalars.size());
  for (const plan::Scalar &value : command.scalars)
    list.scalars.push_back(sum(value.constant, value.terms, context));
  for (const Ref &ref : command.refs)
    list.refs.push_back(device.resolve(address(ref, context)));
  list.launches.push_back({kernels[command.target], nullptr, nullptr});
  list.infos.push_back({&command, nullptr, running});
}

void Resolver::appendMove(const Command &command, const Context &context) {
  bool isCopy = command.kind == Command::Kind::Copy;
  if (command.refs.size() != (isCopy ? 2 : 1) ||
      command.refs[0].bytes != command.refs.back().bytes)
    malformed("a copy or fill has the wrong operands");
  CommandList::Action action;
  action.data = address(command.refs[0], context);
  action.source = address(command.refs.back(), context);
  action.bytes = command.refs[0].bytes;
  append(command, action);
}

void Resolver::append(const Command &command, CommandList::Action action,
                      const Command *awaited) {
  starts.emplace_back(list.refs.size(), list.scalars.size());
  action.kind = command.kind;
  action.stream = command.stream;
  list.actions.push_back(action);
  list.launches.push_back({});
  list.infos.push_back({&command, awaited, running});
}

Communication &Resolver::communication(const Command &command) const {
  if (!participant.communication)
    malformed("one rank alone is to talk to others" +
              (command.path.empty() ? "" : " for " + command.path));
  return *participant.communication;
}

int64_t Resolver::appendCollective(const Command &command,
                                   const Context &context) {
  if (!command.collective || command.refs.size() < 2 || command.refs.size() > 3)
    malformed("a collective has the wrong operands");
  CollectiveBuffers buffers;
  buffers.target = address(command.refs[0], context);
  buffers.targetBytes = command.refs[0].bytes;
  buffers.source = address(command.refs[1], context);
  buffers.sourceBytes = command.refs[1].bytes;
  if (command.refs.size() > 2) {
    buffers.staging = address(command.refs[2], context);
    buffers.stagingBytes = command.refs[2].bytes;
  }
  CommandList::Action action;
  action.number =
      communication(command).addCollective(*command.collective, buffers);
  append(command, action);
  return action.number;
}

int64_t Resolver::appendRecord(const Command &command) {
  CommandList::Action action;
  action.number = device.makeEvent().number;
  append(command, action);
  return action.number;
}

void Resolver::appendWait(const Command &command,
                          const plan::Sequence &sequence,
                          const std::vector<int64_t> &tokens) {
  if (command.target < 0 || command.target >= int64_t(tokens.size()) ||
      tokens[command.target] < 0)
    malformed("'" + sequence.name + "' waits for what it did not start");
  const Command &awaited = sequence.commands[command.target];
  CommandList::Action action;
  action.number = tokens[command.target];
  action.isPoint = awaited.kind == Command::Kind::Record;
  append(command, action, &awaited);
}

void Resolver::appendTransfer(const Command &command, const Context &context) {
  if (!command.channel || command.refs.size() != 1)
    malformed("a send or receive has the wrong operands");
  CommandList::Action action;
  action.number = communication(command).addChannel(*command.channel);
  action.data = address(command.refs[0], context);
  action.bytes = command.refs[0].bytes;
  append(command, action);
  if (command.kind == Command::Kind::Send &&
      sending.emplace(command.channel->name, action.number).second)
    list.sending.push_back(action.number);
}

/// A flush names its channel alone. Before the first send of a step there is
/// nothing to wait for.
void Resolver::appendFlush(const Command &command) {
  if (!command.channel || !command.refs.empty())
    malformed("a flush has the wrong operands");
  auto channel = sending.find(command.channel->name);
  if (channel == sending.end())
    return;
  CommandList::Action action;
  action.number = channel->second;
  action.bytes = command.count;
  append(command, action);
}

} // namespace heddle::rt

CommandList::CommandList(const plan::Plan &plan, const plan::Program &program,
                         const Machine &machine) {
  Resolver(plan, machine, *this).resolve(program, plan.threads);
}

static int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

void CommandList::act(Device &device, const Action &action) const {
  switch (action.kind) {
  case Command::Kind::Copy:
    return device.copy(action.stream, action.data, action.source, action.bytes);
  case Command::Kind::Fill:
    return device.fill(action.stream, action.data, 0, action.bytes);
  case Command::Kind::Record:
    return device.record(action.stream, {action.number});
  case Command::Kind::Collective:
    return communication->start(action.number);
  case Command::Kind::Wait:
    if (action.isPoint)
      return device.wait(action.stream, {action.number});
    return communication->wait(action.number);
  case Command::Kind::Send:
    return communication->send(action.number, action.data, action.bytes);
  case Command::Kind::Receive:
    return communication->receive(action.number, action.data, action.bytes);
  case Command::Kind::Flush:
    return communication->flush(action.number, action.bytes);
  default:
    return;
  }
}

void CommandList::run(Device &device, LaunchTime *times) const {
  const Action *action = actions.data();
  for (size_t i = 0; i < launches.size(); ++i) {
    if (times)
      times[i].begin = now();
    if (launches[i].kernel)
      device.submit(Stream::Compute, launches[i], scratch);
    else
      act(device, *action++);
    if (times) {
      device.synchronize();
      times[i].end = now();
    }
  }
  for (int64_t channel : sending)
    communication->flush(channel, 0);
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
