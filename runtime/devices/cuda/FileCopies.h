//===- FileCopies.h - Copies between files and a GPU ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_FILECOPIES_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_FILECOPIES_H

#include "heddle/runtime/core/OffloadMemory.h"
#include "runtime/devices/cuda/HostTasks.h"

#include <array>

namespace heddle::rt::cuda {

/// Memory of the kind File, and copies between it and a GPU, in pieces through
/// a ring of pinned memory for each direction: some pieces are on their way
/// between file and ring while another one is between ring and GPU. One stream
/// reads, and one writes. Each copy has the ring to itself.
class FileCopies {
public:
  FileCopies(const Driver &driver, const OffloadOptions &options)
      : driver(driver), readers(driver), writers(driver), swap(options) {}
  ~FileCopies() { close(); }

  /// Gets the rings that have room in so many bytes, the readers' first.
  void stage(int64_t bytes);
  int64_t stagedBytes() const;
  /// The readers' ring, for other copies of their stream.
  char *buffer() {
    open(readers);
    return readers.memory;
  }
  /// The rings are there from the first call on.
  Address allocate(const MemoryRequest &request);
  bool holds(Address address) const { return swap.holds(address); }
  void release(Address address) { swap.release(address); }
  /// Releases the rings. Nothing is under way.
  void close();

  /// Submit a copy to the stream. The stream has come to its end when the bytes
  /// are on the GPU, or have left it: what reads them in the file later finds
  /// them. With `repeats` a graph is captured.
  void read(StreamHandle stream, DevicePointer target, Address source,
            int64_t bytes, bool repeats);
  void write(StreamHandle stream, Address target, DevicePointer source,
             int64_t bytes, bool repeats);

  /// Throws what failed so far.
  void checkTasks() {
    readers.tasks.check();
    writers.tasks.check();
  }
  /// For the host, while both streams are idle. Throws what failed before.
  OffloadMemory &memory() {
    checkTasks();
    return swap;
  }
  /// For a function of the host, in the order of the stream: what has left the
  /// GPU before is found.
  void readRows(char *target, Address source, const io::RowChoice &choice) {
    swap.readRows(target, source, choice);
  }
  /// Returns when what has left the GPU is in the files.
  void finish() {
    checkTasks();
    swap.await(swap.started());
  }
  io::OffloadTraffic traffic() const { return swap.traffic(); }
  /// Of copies that no graph repeats; null where nothing is on file.
  io::OffloadTimes *copyTimes() { return writers.memory ? &times : nullptr; }

private:
  static constexpr int64_t numSlots = 4; ///< Of a ring.
  static constexpr int64_t pieceBytes = plan::stagingRingBytes / numSlots;

  struct Ring {
    explicit Ring(const Driver &driver) : tasks(driver) {}
    char *slotOf(int64_t piece) const {
      return memory + piece % numSlots * pieceBytes;
    }
    /// The last transfer from or to the slot of a piece.
    io::OffloadPoint &transferOf(int64_t piece) {
      return transfers[piece % numSlots];
    }

    HostTasks tasks; ///< A direction waits for its own transfers alone.
    char *memory = nullptr;
    std::array<io::OffloadPoint, numSlots> transfers = {};
  };

  void open(Ring &ring);
  void startRead(Address source, int64_t bytes, int64_t piece);
  void startWrite(Address target, int64_t bytes, int64_t piece,
                  io::OffloadTime *time = nullptr);

  const Driver &driver;
  Ring readers, writers;
  io::OffloadTimes times; ///< Is there as long as the thread of what swaps.
  OffloadMemory swap;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_FILECOPIES_H
