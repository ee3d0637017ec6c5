//===- Work.cpp - Collectives of the emulated NCCL ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Executes batches of NCCL calls. When a stream reaches a batch, the rank sends
// to every other rank the data that this other rank needs. The batch is
// complete when the data of all other ranks have arrived. A send is complete
// only when the receiver has reached its receive. The sender waits for that
// too, because NCCL need not buffer what is sent.
//
//===----------------------------------------------------------------------===//

#include "emulator/nccl/Work.h"
#include "heddle/runtime/io/Float.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

using namespace heddle::rt;
using namespace heddle::rt::nccl;

size_t nccl::byteSize(DataType type) {
  switch (type) {
  case Uint8:
    return 1;
  case Float16:
  case Bfloat16:
    return 2;
  case Float32:
  case Int32:
    return 4;
  case Float64:
  case Int64:
    return 8;
  }
  return 0;
}

static const char *nameOf(CallKind kind) {
  constexpr const char *names[] = {"ncclAllReduce", "ncclReduceScatter",
                                   "ncclAllGather", "ncclSend", "ncclRecv"};
  return names[size_t(kind)];
}

static size_t bytesOf(const Call &call) {
  return call.count * byteSize(call.type);
}

/// The number of bytes that a call reads and writes.
static std::pair<size_t, size_t> extentOf(const Call &call, int ranks) {
  size_t bytes = bytesOf(call);
  switch (call.kind) {
  case CallKind::AllReduce:
    return {bytes, bytes};
  case CallKind::ReduceScatter:
    return {bytes * ranks, bytes};
  case CallKind::AllGather:
    return {bytes, bytes * ranks};
  case CallKind::Send:
    return {bytes, 0};
  case CallKind::Receive:
    return {0, bytes};
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Submission
//===----------------------------------------------------------------------===//

std::string Batch::name() const {
  std::string text;
  for (const Call &call : calls) {
    if (!text.empty()) {
      text += " and " + std::to_string(calls.size() - 1) + " more calls";
      break;
    }
    text = std::string(nameOf(call.kind)) + " of " +
           std::to_string(call.count * byteSize(call.type)) + " bytes";
  }
  return text;
}

Result Batch::submit(std::unique_ptr<Batch> batch) {
  for (const Call &call : batch->calls) {
    auto [reads, writes] = extentOf(call, batch->comm->size());
    auto add = [&](const void *address, size_t bytes, bool isWrite) {
      batch->accesses.push_back({reinterpret_cast<cuda::DevicePointer>(address),
                                 bytes, isWrite, nullptr});
    };
    add(call.source, reads, /*isWrite=*/false);
    add(call.target, writes, /*isWrite=*/true);
  }
  // The emulated driver is a separate library, which the program has loaded
  // already. Look up the driver's function by its name.
  static auto submitWork =
      reinterpret_cast<decltype(&cuda::heddleEmulateSubmit)>(
          dlsym(dlopen("libcuda.so.1", RTLD_NOW), "heddleEmulateSubmit"));
  if (!submitWork) {
    complain("the emulated NCCL needs the emulated driver beside it");
    return SystemError;
  }
  Batch *given = batch.release();
  std::string name = given->name();
  cuda::EmulatedWork work = {};
  work.name = name.c_str();
  work.accesses = given->accesses.data();
  work.numAccesses = given->accesses.size();
  work.data = given;
  work.begin = [](void *data) { static_cast<Batch *>(data)->begin(); };
  work.isReady = [](void *data) {
    return int(static_cast<Batch *>(data)->isReady());
  };
  work.run = [](void *data) { static_cast<Batch *>(data)->finish(); };
  work.drop = [](void *data) { delete static_cast<Batch *>(data); };
  work.sentBytes = [](void *data) {
    return static_cast<Batch *>(data)->sentBytes();
  };
  cuda::Result result = submitWork(given->stream, &work);
  return result == cuda::Success        ? Success
         : result == cuda::InvalidValue ? InvalidArgument
                                        : UnhandledCudaError;
}

Result Batch::beginConnecting() {
  bool isFirst = false;
  for (const Call &call : calls) {
    bool isOut = call.kind == CallKind::Send;
    Exchange::PeerDirection direction = {call.peer, isOut};
    bool isMessage = isOut || call.kind == CallKind::Receive;
    if (isMessage && !comm->isConnected(direction))
      connecting.insert(direction);
    isFirst |= isMessage ? !connecting.empty() : !comm->ringIsMade;
    comm->ringIsMade = comm->ringIsMade || !isMessage;
  }
  static auto isCapturing =
      reinterpret_cast<decltype(&cuda::heddleEmulateIsCapturing)>(
          dlsym(dlopen("libcuda.so.1", RTLD_NOW), "heddleEmulateIsCapturing"));
  if (isFirst && isCapturing && isCapturing(stream)) {
    complain(name() + " of rank " + std::to_string(comm->rank()) +
             " of a communicator, the first one, is captured: the connections "
             "that it makes may block the host for ever");
    return InvalidUsage;
  }
  for (const Exchange::PeerDirection &direction : connecting) {
    comm->beginConnecting(direction);
    if (direction.isOut)
      count("connect");
  }
  return Success;
}

Result Batch::finishConnecting() {
  for (const Exchange::PeerDirection &direction : connecting)
    if (!comm->finishConnecting(direction))
      return comm->error() == Success ? RemoteError : comm->error();
  return Success;
}

/// Returns the number of bytes that this rank must send to other ranks for the
/// batch, if it sends no data twice. An all-reduce counts as a reduce-scatter,
/// followed by an all-gather of this rank's part.
int64_t Batch::sentBytes() const {
  int64_t sum = 0, ranks = comm->size(), self = comm->rank();
  for (const Call &call : calls) {
    auto bytes = int64_t(bytesOf(call)), count = int64_t(call.count);
    int64_t piece = (count + ranks - 1) / ranks;
    int64_t own = std::min(piece, count - std::min(self * piece, count));
    if (call.kind == CallKind::AllReduce)
      sum += (own * (ranks - 1) + count - own) * int64_t(byteSize(call.type));
    else if (call.kind == CallKind::Send)
      sum += call.peer == self ? 0 : bytes;
    else if (call.kind != CallKind::Receive)
      sum += bytes * (ranks - 1);
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

std::vector<size_t> Batch::expected() const {
  std::vector<size_t> counts(comm->size());
  for (const Call &call : calls)
    if (call.kind == CallKind::Receive)
      ++counts[call.peer];
    else if (call.kind != CallKind::Send)
      for (int peer = 0; peer < comm->size(); ++peer)
        counts[peer] += peer != comm->rank();
  return counts;
}

std::vector<size_t> Batch::sends() const {
  std::vector<size_t> counts(comm->size());
  for (const Call &call : calls)
    if (call.kind == CallKind::Send)
      ++counts[call.peer];
  return counts;
}

void Batch::send(const Call &call, const char *from) {
  size_t bytes = bytesOf(call);
  auto kind = uint32_t(call.kind);
  if (call.kind == CallKind::Receive)
    return comm->post(call.peer);
  if (call.kind == CallKind::Send)
    return comm->send(call.peer, kind, from, bytes);
  bool hasParts = call.kind == CallKind::ReduceScatter;
  for (int peer = 0; peer < comm->size(); ++peer)
    if (peer != comm->rank())
      comm->send(peer, kind, from + (hasParts ? bytes * peer : 0), bytes);
}

/// Returns the index of the batch that HEDDLE_EMULATE_FAULT breaks, or -1 if
/// there is none.
static int64_t brokenBatch() {
  const char *fault = std::getenv("HEDDLE_EMULATE_FAULT");
  constexpr const char *prefix = "nccl-error:";
  if (!fault || std::strncmp(fault, prefix, std::strlen(prefix)) != 0)
    return -1;
  return std::atoll(fault + std::strlen(prefix));
}

void Batch::begin() {
  isBroken = Exchange::begun++ == brokenBatch();
  if (isBroken) {
    complain(name() + " fails, as HEDDLE_EMULATE_FAULT says");
    return comm->fail(SystemError);
  }
  for (size_t i = 0; i < calls.size(); ++i)
    send(calls[i], sourceOf(i));
  // Until the call completes, its results are undefined: overwrite them.
  for (const cuda::EmulatedAccess &write : accesses) {
    bool isRead = !write.writes;
    for (const cuda::EmulatedAccess &read : accesses)
      isRead |= !read.writes && read.address < write.address + write.bytes &&
                write.address < read.address + read.bytes;
    if (!isRead && write.bytes > 0)
      std::memset(write.data, 0xff, write.bytes);
  }
}

bool Batch::isReady() {
  if (comm->isAborted())
    return true;
  if (isBroken || comm->error() != Success)
    return false;
  std::vector<size_t> counts = expected(), sent = sends();
  for (int peer = 0; peer < comm->size(); ++peer)
    if ((counts[peer] > 0 && comm->arrived(peer) < counts[peer]) ||
        (sent[peer] > 0 && comm->posted(peer) < sent[peer]))
      return false;
  return true;
}

void Batch::take(const Call &call, int peer, char *to, size_t bytes) {
  Message message = comm->take(peer);
  CallKind sent = CallKind(message.kind);
  bool isMeant = call.kind == CallKind::Receive ? sent == CallKind::Send
                                                : sent == call.kind;
  if (isMeant && message.bytes.size() == bytes) {
    if (bytes > 0)
      std::memcpy(to, message.bytes.data(), bytes);
    return;
  }
  complain(std::string(nameOf(call.kind)) + " of " + std::to_string(bytes) +
           " bytes meets " + nameOf(sent) + " of " +
           std::to_string(message.bytes.size()) + " bytes of rank " +
           std::to_string(peer));
  comm->fail(InvalidUsage);
}

template <class Type>
static void addTo(std::vector<float> &sum, const char *from) {
  for (size_t i = 0; i < sum.size(); ++i) {
    typename Type::Storage value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    sum[i] += Type::load(value);
  }
}

template <class Type>
static void storeTo(const std::vector<float> &sum, char *to) {
  for (size_t i = 0; i < sum.size(); ++i) {
    typename Type::Storage value = Type::store(sum[i]);
    std::memcpy(to + i * sizeof value, &value, sizeof value);
  }
}

/// Adds the data of all ranks in f32. They are added in the order of ranks, so
/// that all ranks get the same result.
void Batch::reduce(const Call &call, const char *own, char *to) {
  std::vector<float> sum(call.count);
  std::vector<char> part(bytesOf(call));
  for (int peer = 0; peer < comm->size(); ++peer) {
    const char *from = own;
    if (peer != comm->rank()) {
      take(call, peer, part.data(), part.size());
      from = part.data();
    }
    if (call.type == Float32)
      addTo<io::F32>(sum, from);
    else if (call.type == Bfloat16)
      addTo<io::BF16>(sum, from);
    else
      addTo<io::F16>(sum, from);
  }
  if (call.type == Float32)
    storeTo<io::F32>(sum, to);
  else if (call.type == Bfloat16)
    storeTo<io::BF16>(sum, to);
  else
    storeTo<io::F16>(sum, to);
}

void Batch::gather(const Call &call, const char *own, char *to) {
  size_t bytes = bytesOf(call);
  for (int peer = 0; peer < comm->size(); ++peer, to += bytes)
    if (peer != comm->rank())
      take(call, peer, to, bytes);
    else if (to != own)
      std::memmove(to, own, bytes);
}

void Batch::finish() {
  if (comm->isAborted())
    return;
  std::vector<size_t> sent = sends();
  for (int peer = 0; peer < comm->size(); ++peer)
    comm->meetPosted(peer, sent[peer]);
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call &call = calls[i];
    size_t bytes = bytesOf(call);
    const char *from = sourceOf(i);
    char *to = targetOf(i);
    if (call.kind == CallKind::AllReduce)
      reduce(call, from, to);
    else if (call.kind == CallKind::ReduceScatter)
      reduce(call, from + bytes * comm->rank(), to);
    else if (call.kind == CallKind::Receive)
      take(call, call.peer, to, bytes);
    else if (call.kind == CallKind::AllGather)
      gather(call, from, to);
  }
}
