//===- Staging.cpp - Double buffers of inputs and results -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Staging.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;

static int64_t roundUp(int64_t bytes, int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

Staging::Staging(Session &session, const LoadedProgram &program,
                 const std::vector<const Value *> &results)
    : session(session), program(program) {
  constexpr int64_t line = 64, page = 4096;
  Device &device = session.runsOn();
  int64_t bytes = 0;
  auto add = [&](const Value &value, bool isResult) {
    if (value.numBytes() == 0 || device.map(value.address))
      return;
    values.push_back({&value, bytes, isResult});
    bytes += roundUp(value.numBytes(), line);
  };
  for (size_t i = 0; i < program.program().inputs.size(); ++i)
    add(program.input(i), false);
  for (const Value *result : results)
    add(*result, true);
  if (values.empty())
    return;
  for (Turn &one : turns) {
    one.memory.emplace(device,
                       MemoryRequest{MemoryKind::Pinned, roundUp(bytes, page),
                                     "the inputs and results of a step"});
    one.host = device.map(one.memory->address());
    one.done = device.makeEvent();
  }
  for (Event &end : ends)
    end = device.makeEvent();
}

const Staging::StagedValue *Staging::find(const Value &value) const {
  auto found =
      std::find_if(values.begin(), values.end(),
                   [&](const StagedValue &p) { return p.value == &value; });
  return found == values.end() ? nullptr : &*found;
}

void Staging::store(const Value &input) const {
  const StagedValue *staged = find(input);
  if (!staged)
    return session.store(input);
  session.runsOn().copyIn(Stream::Compute, input.address, host(*staged, turn),
                          input.numBytes());
}

/// Lets all streams except Compute wait for the copies of the stored inputs,
/// which run on Compute.
void Staging::fork() {
  Device &device = session.runsOn();
  Event stored = ends[size_t(Stream::Compute)];
  device.record(Stream::Compute, stored);
  for (Stream stream : plan::streams)
    if (stream != Stream::Compute)
      device.wait(stream, stored);
}

/// Lets Compute wait for the work of all other streams.
void Staging::join() {
  Device &device = session.runsOn();
  for (Stream stream : plan::streams)
    if (stream != Stream::Compute) {
      device.record(stream, ends[size_t(stream)]);
      device.wait(Stream::Compute, ends[size_t(stream)]);
    }
}

int64_t Staging::run(const Outcomes &outcomes, LaunchTime *times) {
  if (values.empty()) {
    session.run(program, outcomes, times);
    return runs++;
  }
  Device &device = session.runsOn();
  fork();
  session.run(program, outcomes, times);
  join();
  for (const StagedValue &staged : values)
    if (staged.isResult)
      device.copyOut(Stream::Compute, host(staged, turn), staged.value->address,
                     staged.value->numBytes());
  device.record(Stream::Compute, turns[turn].done);
  turn = 1 - turn;
  // The next run will use the buffers that `turn` now selects. The last run
  // that used them may still read its inputs or write its results, so the host
  // waits for it.
  if (runs > 0)
    device.await(turns[turn].done);
  return runs++;
}
