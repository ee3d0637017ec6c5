//===- StreamCalls.cpp - Driver calls: streams, events, graphs ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the driver's functions about streams, events, host functions and
// graphs.
//
//===----------------------------------------------------------------------===//

#include "emulator/cuda/Context.h"
#include "heddle/emulator/cuda/Calls.h"

#include <chrono>

using namespace heddle;
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

/// Makes the stream's handle invalid. Commands that were submitted to the
/// stream are still executed.
Result cuda::cuStreamDestroy_v2(StreamHandle stream) {
  return inContext([&](ContextData &context) {
    return context.streams.erase(stream) ? Success : InvalidHandle;
  });
}

Result cuda::cuStreamSynchronize(StreamHandle handle) {
  return inStream(handle, [](ContextData &context, StreamData &stream) {
    if (context.captures(stream))
      return CaptureUnsupported;
    context.countWait(context.graphLaunches);
    context.timeline.finish(stream);
    return Success;
  });
}

Result cuda::cuStreamQuery(StreamHandle handle) {
  return inStream(handle, [](ContextData &context, StreamData &stream) {
    if (context.captures(stream))
      return CaptureUnsupported;
    return context.timeline.query(stream.clock) ? Success : NotReady;
  });
}

Result cuda::cuLaunchHostFunc(StreamHandle handle, HostFunction function,
                              void *data) {
  return inStream(handle, [&](ContextData &context, StreamData &stream) {
    Command command;
    command.name = "a function of the host"; // Its accesses are unknown.
    command.run = [=](Command &) { function(data); };
    context.submit(stream, std::move(command));
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
    made->isTimed = !(flags & eventDisableTiming);
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

/// Submits a command that sets the time of an event. The time is that of the
/// host's clock during the emulation.
static void submitClock(ContextData &context, StreamData &stream,
                        EventData &event) {
  event.time = std::make_shared<double>(0);
  Command command;
  command.name = "the time of an event";
  command.kind = Command::Kind::Mark;
  command.run = [time = event.time](Command &) {
    using namespace std::chrono;
    *time = duration<double, std::milli>(steady_clock::now().time_since_epoch())
                .count();
  };
  context.submit(stream, std::move(command));
}

Result cuda::cuEventRecord(EventHandle event, StreamHandle handle) {
  return inStream(handle, [&](ContextData &context, StreamData &stream) {
    if (!context.events.count(event))
      return InvalidHandle;
    event->isCaptured = context.captures(stream);
    if (event->isCaptured) {
      context.capture->record(&stream, event);
      return Success;
    }
    if (context.capture)
      context.capture->forget(event);
    if (event->isTimed)
      submitClock(context, stream, *event);
    event->graphs = context.graphLaunches;
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
    if (context.capture && context.capture->captures(event)) {
      context.capture->wait(&stream, event);
      return Success;
    }
    if (context.captures(stream))
      return CaptureIsolation;
    if (event->isCaptured)
      return CapturedEvent;
    context.timeline.wait(stream, *event);
    return Success;
  });
}

Result cuda::cuEventSynchronize(EventHandle event) {
  return inContext([&](ContextData &context) {
    if (!context.events.count(event))
      return InvalidHandle;
    if (event->isCaptured)
      return CapturedEvent;
    context.countWait(event->graphs);
    context.timeline.finish(*event);
    return Success;
  });
}

Result cuda::cuEventElapsedTime(float *milliseconds, EventHandle from,
                                EventHandle to) {
  return inContext([&](ContextData &context) {
    for (EventHandle event : {from, to})
      if (!context.events.count(event) || !event->time)
        return InvalidHandle;
    for (EventHandle event : {from, to})
      if (!context.timeline.isDone(event->point))
        return NotReady;
    *milliseconds = float(*to->time - *from->time);
    return Success;
  });
}

Result cuda::cuEventQuery(EventHandle event) {
  return inContext([&](ContextData &context) {
    if (!context.events.count(event))
      return InvalidHandle;
    if (event->isCaptured)
      return CapturedEvent;
    return context.timeline.query(event->point) ? Success : NotReady;
  });
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

/// Only one capture may be active.
Result cuda::cuStreamBeginCapture_v2(StreamHandle handle, CaptureMode mode) {
  return inStream(handle, [&](ContextData &context, StreamData &stream) {
    if (mode != CaptureRelaxed || context.capture)
      return NotSupported;
    if (!handle)
      return CaptureUnsupported;
    context.capture = std::make_unique<Capture>(&stream);
    return Success;
  });
}

Result cuda::cuStreamEndCapture(StreamHandle handle, Graph *graph) {
  return inStream(handle, [&](ContextData &context, StreamData &stream) {
    *graph = nullptr;
    if (!context.capture || context.capture->begunOn() != &stream)
      return CaptureUnmatched;
    std::unique_ptr<Capture> ended = std::move(context.capture);
    if (!ended->isJoined())
      return CaptureUnjoined;
    auto made = std::make_unique<GraphData>(ended->take());
    *graph = made.get();
    context.graphs[*graph] = std::move(made);
    return Success;
  });
}

Result cuda::cuGraphInstantiateWithFlags(GraphExec *exec, Graph graph,
                                         uint64_t flags) {
  return inContext([&](ContextData &context) {
    if (flags != 0 || !context.graphs.count(graph))
      return InvalidValue;
    auto made = std::make_unique<GraphExecData>(*graph, context.timeline);
    *exec = made.get();
    context.execs[*exec] = std::move(made);
    return Success;
  });
}

Result cuda::cuGraphLaunch(GraphExec exec, StreamHandle handle) {
  return inStream(handle, [&](ContextData &context, StreamData &stream) {
    if (!context.execs.count(exec))
      return InvalidValue;
    if (context.captures(stream))
      return NotSupported;
    ++context.graphLaunches;
    exec->launch(context.timeline, stream);
    return Success;
  });
}

Result cuda::cuGraphDestroy(Graph graph) {
  return inContext([&](ContextData &context) {
    return context.graphs.erase(graph) ? Success : InvalidValue;
  });
}

/// Makes the handle of the executable graph invalid. Launches of the graph that
/// were submitted are still executed.
Result cuda::cuGraphExecDestroy(GraphExec exec) {
  return inContext([&](ContextData &context) {
    return context.execs.erase(exec) ? Success : InvalidValue;
  });
}
