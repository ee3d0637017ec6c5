//===- Context.h - An emulated GPU in use -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_CONTEXT_H
#define HEDDLE_EMULATOR_CUDA_CONTEXT_H

#include "emulator/cuda/Graph.h"
#include "emulator/cuda/Memory.h"
#include "emulator/cuda/Timeline.h"

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>

namespace heddle::rt::cuda {

/// A CUmodule.
struct ModuleData {
  std::unique_ptr<emulator::Module> code;
  std::map<std::string, std::unique_ptr<FunctionData>> functions;
};

/// A CUfunction.
struct FunctionData {
  const emulator::Module *code = nullptr;
  std::string name;
  emulator::KernelInfo info;
  int maxDynamicShared = 0;
  bool takesAnyCluster = false; ///< Also one of more than 8 blocks.
};

/// A CUcontext: the primary one of a device.
struct ContextData {
  ContextData(DeviceNumber device, const Settings &given)
      : device(device), settings(given), memory(settings), timeline(settings) {}

  DeviceNumber device;
  int users = 0;
  const Settings settings;
  Memory memory;
  Timeline timeline;
  /// Handles of what was made and not destroyed yet.
  std::set<StreamHandle> streams;
  std::map<EventHandle, std::unique_ptr<EventData>> events;
  std::map<Module, std::unique_ptr<ModuleData>> modules;
  std::set<Function> functions;
  std::map<Graph, std::unique_ptr<GraphData>> graphs;
  std::map<GraphExec, std::unique_ptr<GraphExecData>> execs;
  std::unique_ptr<Capture> capture;
  int64_t submitted = 0, launches = 0;   ///< Kernels, and those that ran.
  int64_t gpuBytes = 0, pinnedBytes = 0; ///< That were allocated.
  int64_t copiedIn = 0, copiedOut = 0;   ///< Bytes, to the GPU and from it.
  int64_t sentBytes = 0;                 ///< To other processes.
  int64_t exchanges = 0; ///< That were begun with other processes.
  int64_t graphLaunches = 0;
  /// Times that the host waited for the graph that it launched last.
  int64_t lastWaits = 0;
  std::chrono::steady_clock::time_point lastCall;
  std::map<std::string, int64_t> calls; ///< Of each function.
  /// What launches of each kernel did; only where somebody asks for counts.
  std::map<std::string, emulator::Counters> kernels;
  Result fault = Success; ///< Once it is another, every call returns it.

  /// The host waits for what was there when so many graphs were launched.
  void countWait(int64_t graphs) {
    lastWaits += graphs > 0 && graphs == graphLaunches;
  }
  /// Ends or stops this process, where the environment says so.
  void befall(const char *event, int64_t number) const;
  /// Writes what was counted as JSON to the file that the settings name: of the
  /// second device, say, with ".1" behind it.
  void writeCounts() const;
  bool captures(const StreamData &stream) const {
    return capture && capture->captures(const_cast<StreamHandle>(&stream));
  }
  /// Gives a command to a stream, or to the capture that the stream is in.
  void submit(StreamData &stream, Command command) {
    if (captures(stream))
      capture->add(&stream, std::move(command));
    else
      timeline.submit(stream, std::move(command));
  }
};

/// The driver in this process. Calls take turns.
struct DriverState {
  std::mutex mutex;
  bool isReady = false;
  Settings settings;
  std::map<DeviceNumber, std::unique_ptr<ContextData>> contexts;

  static DriverState &get();
};

/// Does the work of a call that needs no context.
Result inDriver(const std::function<Result(DriverState &)> &work);
/// Does the work of a call, which is counted, on the current context of this
/// thread.
Result inContext(const std::function<Result(ContextData &)> &work,
                 const char *call = __builtin_FUNCTION());
/// The same for one with a stream, which may be null: the default stream.
Result inStream(StreamHandle stream,
                const std::function<Result(ContextData &, StreamData &)> &work,
                const char *call = __builtin_FUNCTION());

/// The current context of this thread.
extern thread_local ContextData *current;

/// Tells the user of something on stderr.
void complain(const std::string &message);

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_CONTEXT_H
