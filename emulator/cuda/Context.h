//===- Context.h - State of an emulated GPU ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The objects that the driver's handles point to, and helpers with which each
// exported function of the driver begins.
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

/// The data of a CUmodule.
struct ModuleData {
  std::unique_ptr<emulator::Module> code;
  std::map<std::string, std::unique_ptr<FunctionData>> functions;
};

/// The data of a CUfunction.
struct FunctionData {
  const emulator::Module *code = nullptr;
  std::string name;
  emulator::KernelInfo info;
  int maxDynamicShared = 0;
  /// Whether launches of the kernel may have clusters of more than 8 blocks, as
  /// CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED says.
  bool takesAnyCluster = false;
};

/// The data of a CUcontext: a device's primary context.
struct ContextData {
  ContextData(DeviceNumber device, const Settings &given)
      : device(device), settings(given), memory(settings), timeline(settings) {}

  DeviceNumber device;
  int users = 0;
  const Settings settings;
  Memory memory;
  Timeline timeline;
  /// Handles of the objects that exist. A call fails if its handle is not among
  /// them, for example because the object was destroyed.
  std::set<StreamHandle> streams;
  std::map<EventHandle, std::unique_ptr<EventData>> events;
  std::map<Module, std::unique_ptr<ModuleData>> modules;
  std::set<Function> functions;
  std::map<Graph, std::unique_ptr<GraphData>> graphs;
  std::map<GraphExec, std::unique_ptr<GraphExecData>> execs;
  std::unique_ptr<Capture> capture;
  /// How many kernel launches were submitted, and how many were executed.
  int64_t submitted = 0, launches = 0;
  /// Allocated bytes of GPU memory, and of pinned host memory.
  int64_t gpuBytes = 0, pinnedBytes = 0;
  /// Bytes that were copied to the GPU, and from the GPU.
  int64_t copiedIn = 0, copiedOut = 0;
  int64_t sentBytes = 0; ///< Bytes that were sent to other processes.
  /// Number of commands that communicate with other processes (NCCL) and have
  /// begun.
  int64_t exchanges = 0;
  int64_t graphLaunches = 0;
  /// How often the host has waited for the last launch of a graph. Tests use
  /// this count to check that the host does not wait more often than necessary.
  int64_t lastWaits = 0;
  std::chrono::steady_clock::time_point lastCall;
  std::map<std::string, int64_t> calls; ///< Number of calls of each function.
  /// Counters of each kernel's launches. They are only kept if
  /// HEDDLE_EMULATE_COUNTS is set.
  std::map<std::string, emulator::Counters> kernels;
  /// An error of the GPU. Once it is set, every call returns it.
  Result fault = Success;

  /// Counts a wait of the host for some submitted work. `graphs` is the number
  /// of graph launches at the time when the work was submitted. If no graph was
  /// launched since then, the host also waits for the last graph launch, so
  /// `lastWaits` is increased.
  void countWait(int64_t graphs) {
    lastWaits += graphs > 0 && graphs == graphLaunches;
  }
  /// Kills or stops this process if HEDDLE_EMULATE_FAULT asks for it at event
  /// `number` of the kind `event`.
  void befall(const char *event, int64_t number) const;
  /// Writes the counts as JSON to the file that HEDDLE_EMULATE_COUNTS names.
  /// For a device N > 0, ".N" is appended to the name.
  void writeCounts() const;
  bool captures(const StreamData &stream) const {
    return capture && capture->captures(const_cast<StreamHandle>(&stream));
  }
  /// Submits a command to a stream, or adds it to the capture that is active on
  /// the stream.
  void submit(StreamData &stream, Command command) {
    if (captures(stream))
      capture->add(&stream, std::move(command));
    else
      timeline.submit(stream, std::move(command));
  }
};

/// The driver's state in this process. A mutex serializes all calls.
struct DriverState {
  std::mutex mutex;
  bool isReady = false;
  Settings settings;
  std::map<DeviceNumber, std::unique_ptr<ContextData>> contexts;

  static DriverState &get();
};

/// Runs `work` for a call that needs no context.
Result inDriver(const std::function<Result(DriverState &)> &work);
/// Counts a call of a driver function, and runs `work` on this thread's current
/// context.
Result inContext(const std::function<Result(ContextData &)> &work,
                 const char *call = __builtin_FUNCTION());
/// Does the same as inContext for a call on a stream. If `stream` is null, it
/// is the default stream.
Result inStream(StreamHandle stream,
                const std::function<Result(ContextData &, StreamData &)> &work,
                const char *call = __builtin_FUNCTION());

/// This thread's current context.
extern thread_local ContextData *current;

/// Prints a message to stderr.
void complain(const std::string &message);

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_CONTEXT_H
