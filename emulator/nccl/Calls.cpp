//===- Calls.cpp - The functions of the emulated NCCL ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exports the functions of NCCL that the runtime calls.
//
//===----------------------------------------------------------------------===//

#include "emulator/nccl/Work.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <random>

using namespace heddle::rt;
using namespace heddle::rt::nccl;

// The exported functions, declared under NCCL's names.
namespace heddle::rt::nccl {
extern "C" {
#define HEDDLE_DECLARE(RESULT, NAME, SYMBOL, PARAMETERS)                       \
  __attribute__((visibility("default"))) RESULT SYMBOL PARAMETERS;
HEDDLE_NCCL_CALLS(HEDDLE_DECLARE)
#undef HEDDLE_DECLARE
}
} // namespace heddle::rt::nccl

namespace {
/// The communicators of this process. A handle is a number instead of a
/// pointer, so that the use of a destroyed communicator is detected as an
/// error.
struct Comms {
  std::mutex mutex;
  std::map<Comm, std::shared_ptr<Exchange>> all;
  uintptr_t made = 0;

  static Comms &get() {
    // The table of communicators is never destroyed, because a program may call
    // NCCL while it exits.
    static auto *comms = new Comms();
    return *comms;
  }
  std::shared_ptr<Exchange> find(Comm comm) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = all.find(comm);
    return found == all.end() ? nullptr : found->second;
  }
};

/// The calls in this thread's group (ncclGroupStart).
struct Group {
  int depth = 0;
  std::vector<std::unique_ptr<Batch>> batches;
};
} // namespace

static thread_local Group group;

void nccl::count(const char *call) {
  static auto tell = reinterpret_cast<decltype(&cuda::heddleEmulateCount)>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW), "heddleEmulateCount"));
  if (tell)
    tell(call);
}

/// Returns a name for this rank's GPU and machine, by which ranks on the same
/// GPU are found. The name contains a machine only if NCCL_HOSTID gives one,
/// because all ranks of the emulated NCCL are on one machine.
static std::string gpuHere() {
  static auto ask = reinterpret_cast<decltype(&cuda::heddleEmulateDevice)>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW), "heddleEmulateDevice"));
  const char *machine = std::getenv("NCCL_HOSTID");
  return "CUDA device " + std::to_string(ask ? ask() : -1) +
         (machine ? std::string(" of ") + machine : "");
}

Result nccl::ncclGetVersion(int *version) {
  const char *fault = std::getenv("HEDDLE_EMULATE_FAULT");
  bool isOld = fault && std::strcmp(fault, "old-nccl") == 0;
  *version = isOld ? 21705 : 21800; // 2.18 is the lowest that Heddle supports.
  return Success;
}

const char *nccl::ncclGetErrorString(Result error) {
  switch (error) {
  case Success:
    return "no error";
  case UnhandledCudaError:
    return "unhandled cuda error";
  case SystemError:
    return "unhandled system error";
  case InternalError:
    return "internal error";
  case InvalidArgument:
    return "invalid argument";
  case InvalidUsage:
    return "invalid usage";
  case RemoteError:
    return "remote process exited or there was a network error";
  case InProgress:
    return "NCCL operation in progress";
  }
  return "unknown result code";
}

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

Result nccl::ncclGetUniqueId(UniqueId *id) {
  std::random_device random;
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "heddle-nccl-%08x%08x%08x",
                random(), random(), random());
  return Success;
}

Result nccl::ncclCommInitRank(Comm *comm, int ranks, UniqueId id, int rank) {
  if (ranks < 1 || rank < 0 || rank >= ranks ||
      strnlen(id.internal, sizeof id.internal) > 64)
    return InvalidArgument;
  count(__func__);
  try {
    auto made = std::make_shared<Exchange>(id.internal, ranks, rank, gpuHere());
    Comms &comms = Comms::get();
    std::lock_guard<std::mutex> lock(comms.mutex);
    *comm = reinterpret_cast<Comm>(++comms.made);
    comms.all[*comm] = std::move(made);
    return Success;
  } catch (Result result) {
    return result;
  }
}

/// Destroys the handle of a communicator. The communicator itself lives on
/// until all commands of streams that use it have run.
static Result remove(Comm comm, bool isAborted) {
  std::shared_ptr<Exchange> found = Comms::get().find(comm);
  if (!found)
    return InvalidArgument;
  if (isAborted)
    found->abort();
  Comms &comms = Comms::get();
  std::lock_guard<std::mutex> lock(comms.mutex);
  comms.all.erase(comm);
  return Success;
}

Result nccl::ncclCommDestroy(Comm comm) {
  return remove(comm, /*isAborted=*/false);
}

/// This function must not call the driver. Another thread may be inside of a
/// driver call that waits for messages of this communicator, and only the abort
/// ends that wait.
Result nccl::ncclCommAbort(Comm comm) {
  return remove(comm, /*isAborted=*/true);
}

Result nccl::ncclCommGetAsyncError(Comm comm, Result *error) {
  std::shared_ptr<Exchange> found = Comms::get().find(comm);
  if (!found)
    return InvalidArgument;
  *error = found->error();
  return Success;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

Result nccl::ncclGroupStart() {
  ++group.depth;
  return Success;
}

Result nccl::ncclGroupEnd() {
  if (group.depth == 0)
    return InvalidUsage;
  if (--group.depth > 0)
    return Success;
  std::vector<std::unique_ptr<Batch>> batches = std::move(group.batches);
  group.batches.clear();
  Result first = Success;
  for (const std::unique_ptr<Batch> &batch : batches)
    if (Result result = batch->beginConnecting(); first == Success)
      first = result;
  for (const std::unique_ptr<Batch> &batch : batches)
    if (first == Success)
      first = batch->finishConnecting();
  if (first != Success)
    return first;
  for (std::unique_ptr<Batch> &batch : batches) {
    Result result = Batch::submit(std::move(batch));
    if (first == Success)
      first = result;
  }
  return first;
}

static Result add(const Call &call, Comm comm, StreamHandle stream,
                  const char *function = __builtin_FUNCTION()) {
  std::shared_ptr<Exchange> found = Comms::get().find(comm);
  if (!found || byteSize(call.type) == 0 || call.peer >= found->size())
    return InvalidArgument;
  if (found->error() != Success)
    return found->error();
  count(function);
  ncclGroupStart();
  Batch *batch = nullptr;
  for (const std::unique_ptr<Batch> &other : group.batches)
    if (other->isOf(found, stream))
      batch = other.get();
  if (!batch) {
    group.batches.push_back(std::make_unique<Batch>(found, stream));
    batch = group.batches.back().get();
  }
  batch->add(call);
  return ncclGroupEnd();
}

/// Whether the emulated NCCL can reduce values of the type.
static bool canAdd(DataType type, Reduction reduction) {
  return reduction == Sum &&
         (type == Float32 || type == Bfloat16 || type == Float16);
}

Result nccl::ncclAllReduce(const void *source, void *target, size_t count,
                           DataType type, Reduction reduction, Comm comm,
                           StreamHandle stream) {
  if (!canAdd(type, reduction))
    return InvalidArgument;
  return add({CallKind::AllReduce, type, count, -1, source, target}, comm,
             stream);
}

Result nccl::ncclReduceScatter(const void *source, void *target,
                               size_t countOfPart, DataType type,
                               Reduction reduction, Comm comm,
                               StreamHandle stream) {
  if (!canAdd(type, reduction))
    return InvalidArgument;
  return add({CallKind::ReduceScatter, type, countOfPart, -1, source, target},
             comm, stream);
}

Result nccl::ncclAllGather(const void *source, void *target, size_t countOfPart,
                           DataType type, Comm comm, StreamHandle stream) {
  return add({CallKind::AllGather, type, countOfPart, -1, source, target}, comm,
             stream);
}

Result nccl::ncclSend(const void *source, size_t count, DataType type, int peer,
                      Comm comm, StreamHandle stream) {
  if (peer < 0)
    return InvalidArgument;
  return add({CallKind::Send, type, count, peer, source, nullptr}, comm,
             stream);
}

Result nccl::ncclRecv(void *target, size_t count, DataType type, int peer,
                      Comm comm, StreamHandle stream) {
  if (peer < 0)
    return InvalidArgument;
  return add({CallKind::Receive, type, count, peer, nullptr, target}, comm,
             stream);
}
