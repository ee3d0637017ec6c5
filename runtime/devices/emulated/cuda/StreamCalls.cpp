//===- StreamCalls.cpp - The emulated driver: streams and events ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/emulated/cuda/Calls.h"
#include "runtime/devices/emulated/cuda/Context.h"

using namespace heddle::rt;
using namespace heddle::rt::cuda;

Result cuda::cuStreamCreate(StreamHandle *stream, unsigned flags) {
  return inContext([&](ContextData &context) {
    if (flags & ~streamNonBlocking)
      return InvalidValue;
    *stream = &context.timeline.makeStream(!(flags & streamNonBlocking));
    context.streams.insert(*stream);
    return Success;
  });
}

/// What was submitted to it is still done.
Result cuda::cuStreamDestroy_v2(StreamHandle stream) {
  return inContext([&](ContextData &context) {
    return context.streams.erase(stream) ? Success : InvalidHandle;
  });
}

Result cuda::cuStreamSynchronize(StreamHandle handle) {
  return inStream(handle, [](ContextData &context, StreamData &stream) {
    context.timeline.finish(stream);
    return Success;
  });
}

Result cuda::cuStreamQuery(StreamHandle handle) {
  return inStream(handle, [](ContextData &context, StreamData &stream) {
    return context.timeline.query(stream.clock) ? Success : NotReady;
  });
}

Result cuda::cuLaunchHostFunc(StreamHandle handle, HostFunction function,
                              void *data) {
  return inStream(handle, [&](ContextData &context, StreamData &stream) {
    Command command;
    command.name = "a function of the host"; // What it touches is not known.
    command.run = [=](emulator::Touched &) { function(data); };
    context.timeline.submit(stream, std::move(command));
    return Success;
  });
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

Result cuda::cuEventCreate(EventHandle *event, unsigned flags) {
  return inContext([&](ContextData &context) {
    if (flags & ~(eventDisableTiming | 1))
      return InvalidValue;
    auto made = std::make_unique<EventData>();
    *event = made.get();
    context.events[*event] = std::move(made);
    return Success;
  });
}

Result cuda::cuEventDestroy_v2(EventHandle event) {
  return inContext([&](ContextData &context) {
    return context.events.erase(event) ? Success : InvalidHandle;
  });
}

Result cuda::cuEventRecord(EventHandle event, StreamHandle handle) {
  return inStream(handle, [&](ContextData &context, StreamData &stream) {
    if (!context.events.count(event))
      return InvalidHandle;
    context.timeline.record(stream, *event);
    return Success;
  });
}

Result cuda::cuStreamWaitEvent(StreamHandle handle, EventHandle event,
                               unsigned flags) {
  return inStream(handle, [&](ContextData &context, StreamData &stream) {
    if (flags != 0)
      return InvalidValue;
    if (!context.events.count(event))
      return InvalidHandle;
    context.timeline.wait(stream, *event);
    return Success;
  });
}

Result cuda::cuEventSynchronize(EventHandle event) {
  return inContext([&](ContextData &context) {
    if (!context.events.count(event))
      return InvalidHandle;
    context.timeline.finish(*event);
    return Success;
  });
}

Result cuda::cuEventQuery(EventHandle event) {
  return inContext([&](ContextData &context) {
    if (!context.events.count(event))
      return InvalidHandle;
    return context.timeline.query(event->point) ? Success : NotReady;
  });
}
