//===- NcclLink.h - Communication of GPUs through NCCL ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives and messages between ranks with GPUs, by NCCL. CudaDevice uses it
// as its rt::DeviceLink.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_NCCLLINK_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_NCCLLINK_H

#include "heddle/runtime/core/DeviceLink.h"
#include "heddle/runtime/devices/cuda/Casts.h"
#include "heddle/runtime/devices/cuda/NcclApi.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace heddle::rt::nccl {

/// The functions of libnccl.so.2.
struct Library {
#define HEDDLE_MEMBER(RESULT, NAME, SYMBOL, PARAMETERS)                        \
  RESULT(*NAME) PARAMETERS = nullptr;
  HEDDLE_NCCL_CALLS(HEDDLE_MEMBER)
#undef HEDDLE_MEMBER

  /// Returns the library of this process. Throws H0286 if NCCL is missing or
  /// too old.
  static const Library &get();
  /// Throws H0441 if a call of NCCL failed. `doing` names the call for the
  /// message, for example "an all_reduce".
  void check(Result result, const std::string &doing) const;
};

DataType typeOf(plan::DType type);
void *pointer(Address address);
/// Returns the index in the whole tensor of element `element` of the shard of
/// rank `part`. Also returns how many elements, from this one on, are
/// contiguous both in the shard and in the whole tensor.
std::pair<int64_t, int64_t> contiguousFrom(const plan::PartLayout &layout,
                                           const plan::CollectiveShape &shape,
                                           int64_t part, int64_t element);

/// Functions of the device: `add` creates a stream for the link, and `find`
/// returns the driver's handle of a stream.
struct Streams {
  std::function<Stream()> add;
  std::function<StreamHandle(Stream)> find;
};

/// The communicators of this rank, one for each group of ranks. A thread polls
/// all of them for errors, since the host itself may be waiting for a stream
/// that hangs because of an error.
class Link : public DeviceLink {
public:
  Link(const Library &library, Streams streams);
  Link(const Link &) = delete;
  Link &operator=(const Link &) = delete;
  ~Link() override;

  std::string nameGroup() override;
  int join(const std::string &name, int ranks, int position) override;
  void connect(int group, const std::vector<int> &to,
               const std::vector<int> &from) override;
  Stream addStream() override { return streams.add(); }
  bool takes(const plan::CollectiveShape &shape, int64_t stagingBytes) override;
  void run(Stream stream, int group, const plan::CollectiveShape &shape,
           Address target, Address source, Address staging,
           int64_t stagingBytes) override;
  void send(Stream stream, int group, int peer, Address data,
            int64_t bytes) override;
  void receive(Stream stream, int group, int peer, Address data,
               int64_t bytes) override;
  void abort() override;
  /// Throws H0441 if the polling thread has found an error, since the results
  /// of the streams are then invalid. If `abort` was called, waits a few
  /// seconds before it throws, since the process is ending.
  void check() const;

private:
  struct Group {
    Comm comm = nullptr;
    int ranks = 0, position = 0;
  };
  void watch();
  /// A collective that sends elements of another type than that of its buffers.
  struct Cast {
    const Group &group;
    StreamHandle stream;
    const plan::CollectiveShape &shape;
    Address target, source, staging;
    int64_t stagingBytes = 0;

    int64_t wireBytes() const { return plan::byteSize(shape.wire); }
    int64_t ownBytes() const { return plan::byteSize(shape.type); }
    Address staged(int64_t element) const {
      return staging + element * wireBytes();
    }
    /// How many elements of each rank's shard are cast and sent in one round:
    /// as many as fit into staging memory. The number is rounded down to a
    /// multiple of eight, so that casts can use accesses of 16 bytes.
    int64_t most() const;
  };
  void runCast(const Cast &cast);
  void reduceCast(const Cast &cast);
  void scatterCast(const Cast &cast);
  void gatherCast(const Cast &cast);
  void allToAll(const Group &group, StreamHandle stream,
                const plan::CollectiveShape &shape, Address target,
                Address source) const;
  void rotate(const Group &group, StreamHandle stream,
              const plan::CollectiveShape &shape, Address target,
              Address source) const;
  /// Runs `calls` between ncclGroupStart and ncclGroupEnd, so that NCCL submits
  /// all of its operations together.
  void together(const std::function<void()> &calls) const;
  void moveOut(const Group &group, StreamHandle stream, int peer, Address from,
               int64_t bytes) const;
  void moveIn(const Group &group, StreamHandle stream, int peer, Address to,
              int64_t bytes) const;

  const Library &library;
  Streams streams;
  std::unique_ptr<cuda::Casts> casts; ///< Null until it is needed.
  mutable std::mutex mutex;           ///< Guards the members below.
  std::vector<Group> groups;
  bool isAborted = false, isEnding = false;
  Result found = Success;
  std::condition_variable ending;
  std::thread watcher;
};

} // namespace heddle::rt::nccl

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_NCCLLINK_H
