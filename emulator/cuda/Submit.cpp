//===- Submit.cpp - Commands of other emulated libraries ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the functions with which the emulated NCCL and cuBLASLt submit
// commands.
//
//===----------------------------------------------------------------------===//

#include "heddle/emulator/cuda/Submit.h"
#include "emulator/cuda/Context.h"

#include <chrono>
#include <thread>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

/// Runs in a separate thread. If the program has not called the driver for some
/// time, executes commands that communicate with other processes. As on a GPU,
/// such commands must make progress while the host does not call the driver,
/// because another process may wait for them.
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

/// Finds the bytes that a command of the emulated NCCL or cuBLASLt accesses.
/// Returns false if they are not in GPU memory.
static bool findBytes(const ContextData &context, const EmulatedWork &work,
                      emulator::AccessedRanges &touched) {
  for (EmulatedAccess *access = work.accesses;
       access < work.accesses + work.numAccesses; ++access) {
    if (access->bytes == 0)
      continue;
    if (!context.memory.isOnGpu(access->address))
      return false;
    access->data = context.memory.at(access->address, access->bytes);
    if (!access->data)
      return false;
    (access->writes ? touched.writes : touched.reads)
        .push_back({access->address, access->address + access->bytes});
  }
  emulator::mergeRanges(touched.reads);
  emulator::mergeRanges(touched.writes);
  return true;
}

Result cuda::heddleEmulateSubmit(StreamHandle handle,
                                 const EmulatedWork *given) {
  EmulatedWork work = *given;
  std::shared_ptr<void> data(work.data, work.drop);
  auto submit = [&](ContextData &context, StreamData &stream) {
    Command command;
    command.name = work.name;
    if (!findBytes(context, work, command.memory))
      return InvalidValue;
    // On a GPU it is a kernel of a library, which may let a programmatic launch
    // begin at any time.
    command.kind = Command::Kind::Kernel;
    command.memory.nextBegins = emulator::NextBegins::AfterWait;
    command.run = [work, data, &context](Command &) {
      if (work.sentBytes)
        context.sentBytes += work.sentBytes(data.get());
      work.run(data.get());
    };
    if (work.isReady) {
      static std::once_flag once;
      std::call_once(once, [] { std::thread(goOnAlone).detach(); });
      command.begin = [work, data, &context] {
        context.befall("exchange", context.exchanges++);
        work.begin(data.get());
      };
      command.isReady = [work, data] { return work.isReady(data.get()) != 0; };
    }
    context.submit(stream, std::move(command));
    return Success;
  };
  return inStream(handle, submit);
}

int cuda::heddleEmulateDevice() {
  int device = -1;
  inContext([&](ContextData &context) {
    device = context.device;
    return Success;
  });
  return device;
}

int cuda::heddleEmulateIsCapturing(StreamHandle handle) {
  bool isCapturing = false;
  inStream(handle, [&](ContextData &context, StreamData &stream) {
    isCapturing = context.captures(stream);
    return Success;
  });
  return isCapturing;
}

void cuda::heddleEmulateCount(const char *call) {
  inContext([](ContextData &) { return Success; }, call);
}
