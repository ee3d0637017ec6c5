//===- Context.cpp - State of an emulated GPU -----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements what all driver calls share: locking, the current context,
// counters, faults for tests.
//
//===----------------------------------------------------------------------===//

#include "emulator/cuda/Context.h"

#include <csignal>
#include <cstdio>
#include <fstream>
#include <new>
#include <unistd.h>

using namespace heddle::rt;
using namespace heddle::rt::cuda;

thread_local ContextData *cuda::current = nullptr;

DriverState &DriverState::get() {
  // The driver's state is never destroyed, because a program may call the
  // driver while it exits.
  static auto *state = new DriverState();
  return *state;
}

void cuda::complain(const std::string &message) {
  std::fprintf(stderr, "heddle emulate: %s\n", message.c_str());
}

Result cuda::inDriver(const std::function<Result(DriverState &)> &work) {
  DriverState &state = DriverState::get();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (!state.isReady)
    return NotInitialized;
  try {
    return work(state);
  } catch (const std::bad_alloc &) {
    return OutOfMemory;
  }
}

Result cuda::inContext(const std::function<Result(ContextData &)> &work,
                       const char *call) {
  return inDriver([&](DriverState &state) {
    ContextData *context = current;
    if (!context)
      return InvalidContext;
    // Another thread may have destroyed the context that this thread uses, so
    // look for it among the existing contexts.
    bool isAlive = false;
    for (const auto &[device, other] : state.contexts)
      isAlive |= other.get() == context;
    if (!isAlive)
      return ContextIsDestroyed;
    context->befall(call, context->calls[call]++);
    context->lastCall = std::chrono::steady_clock::now();
    if (context->fault != Success)
      return context->fault;
    try {
      return work(*context);
    } catch (const Fault &fault) {
      complain(fault.message);
      context->timeline.abandon();
      return context->fault = fault.code;
    }
  });
}

Result
cuda::inStream(StreamHandle stream,
               const std::function<Result(ContextData &, StreamData &)> &work,
               const char *call) {
  auto onStream = [&](ContextData &context) {
    if (!stream)
      return work(context, context.timeline.defaultStream());
    return context.streams.count(stream) ? work(context, *stream)
                                         : InvalidHandle;
  };
  return inContext(onStream, call);
}

void ContextData::befall(const char *event, int64_t number) const {
  if (settings.signal != 0 && settings.signalNumber == number &&
      settings.signalAt == event)
    kill(getpid(), settings.signal);
}

void ContextData::writeCounts() const {
  if (settings.counts.empty())
    return;
  std::string path = settings.counts;
  if (device > 0)
    path += "." + std::to_string(device);
  std::ofstream file(path);
  file << "{\"device_bytes\": " << gpuBytes
       << ", \"pinned_bytes\": " << pinnedBytes
       << ", \"copied_in_bytes\": " << copiedIn
       << ", \"copied_out_bytes\": " << copiedOut
       << ", \"sent_bytes\": " << sentBytes << ", \"kernels\": " << launches
       << ", \"queues\": " << settings.queues
       << ", \"last_waits\": " << lastWaits << ", \"calls\": {";
  const char *between = "";
  for (const auto &[name, count] : calls) {
    file << between << "\"" << name << "\": " << count;
    between = ", ";
  }
  file << "}, \"counted\": {";
  between = "";
  for (const auto &[name, count] : kernels) {
    file << between << "\"" << name << "\": {\"bytes\": " << count.globalBytes
         << ", \"sectors\": " << count.globalSectors
         << ", \"tensor_operations\": " << count.tensorOperations << "}";
    between = ", ";
  }
  file << "}}\n";
  if (!file.flush())
    complain(path + " cannot be written");
}
