//===- Work.h - What calls of the emulated NCCL do --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_NCCL_WORK_H
#define HEDDLE_EMULATOR_NCCL_WORK_H

#include "emulator/nccl/Comm.h"
#include "heddle/emulator/cuda/Submit.h"

#include <memory>
#include <set>

namespace heddle::rt::nccl {

enum class CallKind : uint32_t {
  AllReduce,
  ReduceScatter,
  AllGather,
  Send,
  Receive
};

/// One call, which moves elements of its type.
struct Call {
  CallKind kind = CallKind::AllReduce;
  DataType type = Float32;
  size_t count = 0; ///< Of a rank's part, where there are parts.
  int peer = -1;    ///< Of a message.
  const void *source = nullptr;
  void *target = nullptr;
};

/// Counts a call, as the driver's are.
void count(const char *call);

/// Bytes of an element; 0 for types that it does not know.
size_t byteSize(DataType type);

/// The calls that a group of calls has for one communicator and one stream: a
/// stream does them as one.
class Batch {
public:
  Batch(std::shared_ptr<Exchange> comm, StreamHandle stream)
      : comm(std::move(comm)), stream(stream) {}

  bool isOf(const std::shared_ptr<Exchange> &other, StreamHandle on) const {
    return comm == other && stream == on;
  }
  void add(const Call &call) { calls.push_back(call); }
  /// The first messages between two ranks make connections: that blocks the
  /// host until the other one does so, too. All that a group of calls has to
  /// make is begun before any of it is waited for. A capture makes none: ranks
  /// that capture in their own orders might wait for each other.
  Result beginConnecting();
  Result finishConnecting();
  /// Gives it to the driver, which owns it from then on.
  static Result submit(std::unique_ptr<Batch> batch);

private:
  void begin();
  bool isReady();
  void finish();
  int64_t sentBytes() const;
  std::string name() const;
  /// The messages that it takes from each rank.
  std::vector<size_t> expected() const;
  /// The messages that it sends to each rank.
  std::vector<size_t> sends() const;
  const char *sourceOf(size_t call) const { return accesses[2 * call].place; }
  char *targetOf(size_t call) const { return accesses[2 * call + 1].place; }
  void send(const Call &call, const char *from);
  void reduce(const Call &call, const char *own, char *to);
  void gather(const Call &call, const char *own, char *to);
  void take(const Call &call, int peer, char *to, size_t bytes);

  std::shared_ptr<Exchange> comm;
  StreamHandle stream;
  std::vector<Call> calls;
  std::set<Exchange::PeerDirection> connecting;
  /// Of each call, what it reads, and then what it writes.
  std::vector<cuda::EmulatedAccess> accesses;
  bool isBroken = false; ///< As the user asked for it.
};

} // namespace heddle::rt::nccl

#endif // HEDDLE_EMULATOR_NCCL_WORK_H
