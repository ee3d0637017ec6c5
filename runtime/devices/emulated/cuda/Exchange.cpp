//===- Exchange.cpp - Work of streams that waits for other processes ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/emulated/cuda/Calls.h"
#include "runtime/devices/emulated/cuda/Context.h"
#include "runtime/devices/emulated/cuda/Private.h"

#include <chrono>
#include <thread>

using namespace heddle::rt;
using namespace heddle::rt::cuda;

/// Other processes may need what this one has not done yet, although its host
/// does not wait for it: a GPU would go on by itself. So does this thread, when
/// the program has not called the driver for some time.
static void goOnAlone() {
  constexpr std::chrono::milliseconds pause(20), idle(100);
  DriverState &state = DriverState::get();
  while (true) {
    std::this_thread::sleep_for(pause);
    std::lock_guard<std::mutex> lock(state.mutex);
    for (const auto &[device, context] : state.contexts) {
      auto silence = std::chrono::steady_clock::now() - context->lastCall;
      if (context->fault != Success || silence < idle)
        continue;
      try {
        context->timeline.advanceExchanges();
      } catch (const Fault &fault) {
        complain(fault.message);
        context->timeline.abandon();
        context->fault = fault.code;
      }
    }
  }
}

/// False where one of the ranges is not on the GPU.
static bool findPlaces(const ContextData &context, WorkRange *ranges,
                       size_t count, std::vector<emulator::ByteRange> &bytes) {
  for (size_t i = 0; i < count; ++i) {
    WorkRange &range = ranges[i];
    if (range.bytes == 0)
      continue;
    if (!context.memory.isOnGpu(range.address))
      return false;
    range.place = context.memory.at(range.address, range.bytes);
    if (!range.place)
      return false;
    bytes.push_back({range.address, range.address + range.bytes});
  }
  return true;
}

Result cuda::heddleEmulatedExchange(StreamHandle handle,
                                    const ExchangeWork *given) {
  static std::once_flag once;
  std::call_once(once, [] { std::thread(goOnAlone).detach(); });
  ExchangeWork work = *given;
  std::shared_ptr<void> data(work.data, work.forget);
  return inStream(handle, [&](ContextData &context, StreamData &stream) {
    Command command;
    command.name = work.name;
    if (!findPlaces(context, work.reads, work.numReads, command.memory.reads) ||
        !findPlaces(context, work.writes, work.numWrites,
                    command.memory.writes))
      return InvalidValue;
    command.begin = [work, data] { work.begin(work.data); };
    command.isReady = [work, data] { return work.isReady(work.data) != 0; };
    command.run = [work, data, &context](emulator::Touched &) {
      int64_t bytes = 0;
      work.count(work.data, &bytes);
      context.sentBytes += bytes;
      work.finish(work.data);
    };
    context.submit(stream, std::move(command));
    return Success;
  });
}

void cuda::heddleEmulatedCount(const char *call) {
  inContext([](ContextData &) { return Success; }, call);
}
