//===- Staging.cpp - Double buffers of inputs and results -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Staging.h"
#include "heddle/runtime/io/RoundUp.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;

StagingBuffers::StagingBuffers(Device &device) : device(device) {
  for (Buffer &buffer : buffers)
    buffer.done = device.makeEvent();
}

void StagingBuffers::reserve(int64_t bytes) {
  constexpr int64_t page = 4096;
  size = std::max(size, io::roundUp(bytes, page));
}

char *StagingBuffers::at(int64_t run) {
  // Both at once: an allocation between two runs would wait for the device.
  if (!buffers.front().memory)
    for (Buffer &buffer : buffers) {
      buffer.memory.emplace(device,
                            MemoryRequest{MemoryKind::Pinned, size,
                                          "the inputs and results of a step"});
      buffer.host = device.map(buffer.memory->address());
    }
  return buffers[run % 2].host;
}

int64_t StagingBuffers::endRun() {
  if (size > 0) {
    device.record(Stream::Compute, buffers[runs % 2].done);
    device.await(buffers[(runs + 1) % 2].done);
  }
  return runs++;
}

Staging::Staging(Session &session, const LoadedProgram &program,
                 const std::vector<const Value *> &results,
                 std::shared_ptr<StagingBuffers> shared)
    : session(session), program(program), buffers(std::move(shared)) {
  constexpr int64_t line = 64;
  Device &device = session.runsOn();
  int64_t bytes = 0;
  auto add = [&](const Value &value, bool isResult) {
    if (value.numBytes() == 0 || device.map(value.address))
      return;
    values.push_back({&value, bytes, isResult});
    bytes += io::roundUp(value.numBytes(), line);
  };
  for (size_t i = 0; i < program.program().inputs.size(); ++i)
    add(program.input(i), false);
  for (const Value *result : results)
    add(*result, true);
  if (!buffers)
    buffers = std::make_shared<StagingBuffers>(device);
  if (values.empty())
    return;
  buffers->reserve(bytes);
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
  session.runsOn().copyIn(Stream::Compute, input.address,
                          host(*staged, buffers->nextRun()), input.numBytes());
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

int64_t Staging::run(const Outcomes &outcomes, LaunchTime *times,
                     const std::function<void()> &submitLast) {
  Device &device = session.runsOn();
  if (!values.empty())
    fork();
  session.run(program, outcomes, times);
  if (!values.empty())
    join();
  if (submitLast)
    submitLast();
  const int64_t number = buffers->nextRun();
  for (const StagedValue &staged : values)
    if (staged.isResult)
      device.copyOut(Stream::Compute, host(staged, number),
                     staged.value->address, staged.value->numBytes());
  return buffers->endRun();
}
