//===- Work.h - Collectives of the emulated NCCL ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns the calls of a group into one command of a stream.
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

/// One collective, send or receive.
struct Call {
  CallKind kind = CallKind::AllReduce;
  DataType type = Float32;
  /// Number of elements. If the data have a part for each rank, it is the
  /// number in one part.
  size_t count = 0;
  int peer = -1; ///< For sends and receives: the other rank.
  const void *source = nullptr;
  void *target = nullptr;
};

/// Counts a call of an NCCL function, as calls of the driver are counted
/// (HEDDLE_EMULATE_COUNTS).
void count(const char *call);

/// Bytes of an element; 0 if the type is unknown.
size_t byteSize(DataType type);

/// The calls of a group for one communicator and one stream, which the stream
/// executes as one command.
class Batch {
public:
  Batch(std::shared_ptr<Exchange> comm, StreamHandle stream)
      : comm(std::move(comm)), stream(stream) {}

  bool isOf(const std::shared_ptr<Exchange> &other, StreamHandle on) const {
    return comm == other && stream == on;
  }
  void add(const Call &call) { calls.push_back(call); }
  /// Begins to make the connections that the batch needs. NCCL makes a
  /// connection at the first send or receive between two ranks, and blocks the
  /// host until the peer makes its end too. All connections of a group begin
  /// before the first wait, so that the order of calls in a group does not
  /// matter. During a graph capture no connection is made, because ranks that
  /// capture in different orders could deadlock.
  Result beginConnecting();
  Result finishConnecting();
  /// Submits a batch to the driver, which then owns it.
  static Result submit(std::unique_ptr<Batch> batch);

private:
  void begin();
  bool isReady();
  void finish();
  int64_t sentBytes() const;
  std::string name() const;
  /// The number of messages that the batch receives from each rank.
  std::vector<size_t> expected() const;
  /// The number of messages that the batch sends to each rank.
  std::vector<size_t> sends() const;
  const char *sourceOf(size_t call) const { return accesses[2 * call].data; }
  char *targetOf(size_t call) const { return accesses[2 * call + 1].data; }
  void send(const Call &call, const char *from);
  void reduce(const Call &call, const char *own, char *to);
  void gather(const Call &call, const char *own, char *to);
  void take(const Call &call, int peer, char *to, size_t bytes);

  std::shared_ptr<Exchange> comm;
  StreamHandle stream;
  std::vector<Call> calls;
  std::set<Exchange::PeerDirection> connecting;
  /// For each call, the buffer that it reads, followed by the buffer that it
  /// writes.
  std::vector<cuda::EmulatedAccess> accesses;
  bool isBroken = false; ///< Whether HEDDLE_EMULATE_FAULT lets this batch fail.
};

} // namespace heddle::rt::nccl

#endif // HEDDLE_EMULATOR_NCCL_WORK_H
