//===- Session.cpp - A loaded plan with its memory ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Session.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/PlanFormat/MemoryHelp.h"
#include "heddle/runtime/core/Traffic.h"
#include "heddle/runtime/io/Diagnostic.h"

using namespace heddle;
using namespace heddle::rt;

int64_t Value::numElements() const {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

static std::vector<Value> resolvePorts(const std::vector<plan::Port> &ports,
                                       const Regions &regions) {
  std::vector<Value> values;
  for (const plan::Port &port : ports)
    values.push_back({resolvePort(port, regions), port.type, port.shape});
  return values;
}

LoadedProgram::LoadedProgram(const plan::Plan &plan,
                             const plan::Program &program,
                             const Machine &machine)
    : source(program), inputs(resolvePorts(program.inputs, machine.regions)),
      outputs(resolvePorts(program.outputs, machine.regions)),
      list(plan, program, machine) {}

static const Value *findPort(const std::vector<plan::Port> &ports,
                             const std::vector<Value> &values,
                             plan::PortRole role) {
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].role == role)
      return &values[i];
  return nullptr;
}

const Value *LoadedProgram::input(plan::PortRole role) const {
  return findPort(source.inputs, inputs, role);
}

const Value *LoadedProgram::output(plan::PortRole role) const {
  return findPort(source.outputs, outputs, role);
}

void heddle::rt::requireThreads(const plan::Plan &plan, int64_t threads) {
  if (threads > plan.threads)
    fail("H0193",
         "the plan was made for at most " + std::to_string(plan.threads) +
             " threads, not " + std::to_string(threads),
         "use --threads " + std::to_string(plan.threads) +
             ", or compile with --threads " + std::to_string(threads));
}

/// Returns the regions that the host accesses through the HostMirror, which
/// copies device memory to the host where needed: all regions but files, which
/// may be larger than the host's memory.
static std::vector<Region> mirroredOf(const PlanMemory &persistent,
                                      const PlanMemory &arena) {
  std::vector<Region> all;
  for (const PlanMemory *memory : {&persistent, &arena})
    for (MemoryKind kind : plan::memoryKinds)
      if (kind != MemoryKind::File)
        all.push_back(memory->regions()[kind]);
  return all;
}

/// Describes the state that is stored at this offset in memory of the kind
/// File, for errors.
static std::string nameOfState(const plan::Plan &plan, int64_t offset) {
  const plan::State *found = stateAt(plan, MemoryKind::File, offset);
  if (!found)
    return "no state";
  bool isAlone = found->placement.flatAxes.empty();
  return (isAlone ? "the state " : "the bucket that begins with the state ") +
         found->name;
}

/// Throws if the plan needs more memory than this machine has. Training uses
/// all the memory of its plan, and the system would kill the process later.
static void requireMachineMemory(const plan::Plan &plan) {
  const plan::Memory &memory = plan.memory;
  if (plan.device != plan::DeviceKind::Cpu)
    return;
  int64_t needed =
      std::max(memory.persistentBytes.inMemory(), memory.arenaBytes.inMemory());
  if (plan.findProgram(plan::ProgramKind::Train))
    needed = memory.peakBytes();
  int64_t here = plan::machineBytes();
  if (needed > here)
    fail("H0292",
         "the plan needs " + plan::formatBytes(needed) + " (" +
             std::to_string(needed) + " bytes), this machine has " +
             plan::formatBytes(here) +
             "; the most have: " + plan::largestOwners(memory),
         plan::helpForMemory(plan));
}

/// Checks that the device has enough memory for the plan, and returns the
/// device.
static Device &withMemoryFor(const plan::Plan &plan, Device &device) {
  requireMachineMemory(plan);
  device.requireMemory(plan);
  device.stage(plan.memory.stagingBytes);
  return device;
}

Session::Session(const plan::Plan &plan, const KernelSet &kernels,
                 Device &device, const SessionOptions &options)
    : source(plan), device(withMemoryFor(plan, device)),
      participant(options.participant),
      persistent(device, plan.memory.persistentBytes, "states",
                 options.guardPages, plan.memory.fileBytes,
                 [&plan](int64_t offset) { return nameOfState(plan, offset); }),
      arena(device, plan.memory.arenaBytes, "the arena", options.guardPages),
      mirror(device, mirroredOf(persistent, arena)) {
  requireThreads(plan, device.threads());
  if (participant.communication)
    participant.communication->use(mirror);
  Regions regions = {persistent.regions(), arena.regions()};
  Machine machine = {device, kernels, mirror, regions, participant};
  for (const plan::State &state : plan.states) {
    plan::Port place;
    place.name = state.name;
    place.type = state.type;
    // A packed weight (quantized, or in the layout of kernels) is computed from
    // this rank's shard of the unpacked weight in the files. That shard is
    // loaded, so `shards` gets the shard's shape.
    shards.emplace_back(state.placement,
                        state.packed.empty() ? state.shape
                                             : state.packed[0].shape,
                        plan.mesh, rank());
    place.shape = state.placement.flatAxes.empty()
                      ? state.shape
                      : std::vector<int64_t>{shards.back().localElements()};
    place.ref.space = plan::Space::Persistent;
    place.ref.memory = state.memory;
    place.ref.offset = state.offset;
    states.push_back({resolvePort(place, regions), state.type, place.shape});
  }
  for (const plan::Program &program : plan.programs)
    programs.emplace_back(plan, program, machine);
}

/// Waits for the device, because submitted kernels still read the operand lists
/// of the programs. If `synchronize` throws, no work is running any more. The
/// destructor ignores the error, because an earlier call has already thrown it.
Session::~Session() {
  try {
    device.synchronize();
  } catch (const UserError &) {
  }
}

const LoadedProgram *Session::program(plan::ProgramKind kind) const {
  for (const LoadedProgram &program : programs)
    if (program.program().kind == kind)
      return &program;
  return nullptr;
}

const Value *Session::state(std::string_view name) const {
  for (size_t i = 0; i < states.size(); ++i)
    if (source.states[i].name == name)
      return &states[i];
  return nullptr;
}
