//===- Session.h - A loaded plan with its memory ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A loaded plan with its memory: runs programs and gives access to their
// inputs, outputs and states.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_SESSION_H
#define HEDDLE_RUNTIME_CORE_SESSION_H

#include "heddle/runtime/core/CommandList.h"
#include "heddle/runtime/core/RankShard.h"

#include <deque>
#include <string_view>

namespace heddle::rt {

/// The memory on the device of a program's input, output or state.
struct Value {
  Address address;
  plan::DType type = plan::DType::F32;
  std::vector<int64_t> shape;

  int64_t numElements() const;
  int64_t numBytes() const { return numElements() * plan::byteSize(type); }
};

/// A program of a session: its inputs, outputs and commands.
class LoadedProgram {
public:
  LoadedProgram(const plan::Plan &plan, const plan::Program &program,
                const Machine &machine);

  /// The first input with this role, such as token ids; null if there is none.
  const Value *input(plan::PortRole role) const;
  /// The first output with this role, such as the loss; null if there is none.
  const Value *output(plan::PortRole role) const;
  /// The memory of `program().inputs[index]` and `program().outputs[index]`.
  const Value &input(size_t index) const { return inputs[index]; }
  const Value &output(size_t index) const { return outputs[index]; }

  const plan::Program &program() const { return source; }
  const CommandList &commands() const { return list; }

private:
  const plan::Program &source;
  std::vector<Value> inputs;
  std::vector<Value> outputs;
  CommandList list;
};

/// Throws H0193 when the plan allows fewer threads than `threads`.
void requireThreads(const plan::Plan &plan, int64_t threads);

/// Options of a session; the defaults are those of a compiled binary.
struct SessionOptions {
  /// Whether to put guard pages before and after the memory that the session
  /// allocates (the arena and the persistent region).
  bool guardPages = false;
  Participant participant; ///< The rank that runs the plan.
};

/// Allocates the memory of the plan's selected stage, resolves its programs for
/// one rank and runs them. The plan, the kernels, the device and the
/// communication must outlive it.
class Session {
public:
  /// Throws a UserError: H0292 if there is too little memory, H0193 if the
  /// device has more threads than the plan allows, H0385 if the plan is
  /// malformed.
  Session(const plan::Plan &plan, const KernelSet &kernels, Device &device,
          const SessionOptions &options = {});
  ~Session();

  /// The first program of this kind, or null.
  const LoadedProgram *program(plan::ProgramKind kind) const;
  const std::deque<LoadedProgram> &allPrograms() const { return programs; }
  /// The loaded form of `program`, which must be one of `plan().programs`.
  const LoadedProgram &loaded(const plan::Program &program) const {
    return programs[size_t(&program - source.programs.data())];
  }
  /// The state of this name, or null.
  const Value *state(std::string_view name) const;
  /// The memory of `plan().states[index]`. If ZeRO splits the bucket that the
  /// state is in, this is the rank's shard of the bucket.
  const Value &state(size_t index) const { return states[index]; }
  /// Returns which elements of the state with this index are in the memory
  /// `state(index)`.
  const RankShard &shard(size_t index) const { return shards[index]; }

  /// The host's address of a value. The caller must write all of the value
  /// there, and then call `store`.
  template <typename T = char> T *at(const Value &value) const {
    return reinterpret_cast<T *>(mirror.at(value.address, value.numBytes()));
  }
  void store(const Value &value) {
    mirror.store(value.address, value.numBytes());
  }
  /// Waits for all submitted work and returns the host's address of the value's
  /// bytes.
  template <typename T = char> T *load(const Value &value) {
    return reinterpret_cast<T *>(mirror.load(value.address, value.numBytes()));
  }
  /// The object through which the host accesses the session's memory.
  HostMirror &host() { return mirror; }

  /// Waits for work that the last run of another program has left for the next
  /// run of that program. Call it before the inputs of `program` are written,
  /// because this work may use the same memory.
  void settle(const LoadedProgram &program) {
    if (unfinished && unfinished != &program) {
      device.synchronize();
      unfinished = nullptr;
    }
  }
  /// Runs a program once with the current contents of its inputs. Allocates
  /// nothing. The device may still compute when it returns. `outcomes` and
  /// `times` are as in CommandList::run.
  void run(const LoadedProgram &program, const Outcomes &outcomes = {},
           LaunchTime *times = nullptr) {
    settle(program);
    unfinished = program.commands().leavesWork() ? &program : nullptr;
    program.commands().run(device, outcomes, times);
  }

  const plan::Plan &plan() const { return source; }
  int64_t rank() const { return participant.rank; }
  /// The pipeline stage of the rank.
  int64_t stage() const { return source.mesh.stageOf(rank()); }
  Device &runsOn() const { return device; }
  /// The number of bytes of memory that the session has allocated.
  int64_t mappedBytes() const {
    return persistent.bytes() + arena.bytes() + device.stagedBytes();
  }
  /// The memory of values that are not states.
  const plan::PerMemory<Region> &arenaRegions() const {
    return arena.regions();
  }
  /// For tests: fills the arena with `value`, so that a read of uninitialized
  /// memory changes results. The caller must write the inputs again before the
  /// next run, because they are in the arena.
  void poisonArena(unsigned char value) {
    device.synchronize();
    for (const Region &region : arena.regions().values)
      device.fill(Stream::Compute, region.begin, value, region.bytes);
    device.synchronize(Stream::Compute);
  }

private:
  const plan::Plan &source;
  Device &device;
  Participant participant;
  PlanMemory persistent;
  PlanMemory arena;
  HostMirror mirror;
  std::vector<Value> states;
  std::vector<RankShard> shards;
  std::deque<LoadedProgram> programs;
  /// The program that ran last, if it left work for its next run.
  const LoadedProgram *unfinished = nullptr;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_SESSION_H
