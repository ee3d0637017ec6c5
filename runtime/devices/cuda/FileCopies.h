//===- FileCopies.h - Copies between files and a GPU ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_FILECOPIES_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_FILECOPIES_H

#include "heddle/runtime/core/SwapMemory.h"
#include "runtime/devices/cuda/HostTasks.h"

#include <array>

namespace heddle::rt::cuda {

/// Memory of the kind File, and copies between it and a GPU, in pieces through
/// a ring of pinned memory: some pieces are on their way between file and ring
/// while another one is between ring and GPU. Of one stream.
class FileCopies {
public:
  FileCopies(const Driver &driver, HostTasks &tasks, const SwapOptions &options)
      : driver(driver), tasks(tasks), swap(options) {}
  ~FileCopies() { close(); }

  /// The ring is there from the first call on.
  Address allocate(const MemoryRequest &request);
  bool holds(Address address) const { return swap.holds(address); }
  void release(Address address) { swap.release(address); }
  /// Releases the ring. Nothing is under way.
  void close();

  /// Submit a copy to the stream. The stream has come to its end when the bytes
  /// are on the GPU, or have left it: what reads them in the file later finds
  /// them. With `repeats` a graph is captured.
  void read(StreamHandle stream, DevicePointer target, Address source,
            int64_t bytes, bool repeats);
  void write(StreamHandle stream, Address target, DevicePointer source,
             int64_t bytes, bool repeats);

  /// For the host, while the stream is idle. Throws what failed before.
  SwapMemory &memory() {
    tasks.check();
    return swap;
  }
  /// For a function of the host, in the order of the stream: what has left the
  /// GPU before is found.
  void readRows(char *target, Address source, const io::RowChoice &choice) {
    swap.readRows(target, source, choice);
  }
  /// Returns when what has left the GPU is in the files. The stream is idle.
  void finish() { memory().await(swap.started()); }
  io::SwapTraffic traffic() const { return swap.traffic(); }
  /// Of copies that no graph repeats; null where nothing is on file.
  io::SwapTimes *copyTimes() { return ring ? &times : nullptr; }

private:
  static constexpr int64_t pieceBytes = int64_t(2) << 20;
  static constexpr int64_t numSlots = 8;

  char *slotOf(int64_t piece) const {
    return ring + piece % numSlots * pieceBytes;
  }
  /// The number of the last transfer from or to the slot of a piece.
  int64_t &transferOf(int64_t piece) { return transfers[piece % numSlots]; }
  void startRead(Address source, int64_t bytes, int64_t piece);
  void startWrite(Address target, int64_t bytes, int64_t piece,
                  io::SwapTime *time = nullptr);

  const Driver &driver;
  HostTasks &tasks;
  io::SwapTimes times; ///< Is there as long as the thread of what swaps.
  SwapMemory swap;
  char *ring = nullptr;
  std::array<int64_t, numSlots> transfers = {};
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_FILECOPIES_H
