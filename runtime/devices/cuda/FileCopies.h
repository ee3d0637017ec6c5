//===- FileCopies.h - Copies between files and a GPU ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transfers of offloaded states between files and a GPU, staged in pinned
// memory.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_FILECOPIES_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_FILECOPIES_H

#include "heddle/runtime/core/OffloadMemory.h"
#include "runtime/devices/cuda/HostTasks.h"

#include <array>

namespace heddle::rt::cuda {

/// Memory of the kind File, and copies between it and a GPU. A copy is divided
/// into chunks, which pass through a ring of slots in pinned memory. While one
/// chunk is copied between ring and GPU, other chunks are copied between file
/// and ring. There is one ring for reading and one for writing. Each ring
/// serves a single stream, so that a copy can use all of its slots.
class FileCopies {
public:
  FileCopies(const Driver &driver, const OffloadOptions &options)
      : driver(driver), readers(driver), writers(driver), swap(options) {}
  ~FileCopies() { close(); }

  /// Allocates the rings of pinned memory through which copies pass, if they
  /// fit into `bytes`. The ring for reading is allocated first.
  void stage(int64_t bytes);
  int64_t stagedBytes() const;
  /// Returns the pinned memory through which reads of files pass. Other copies
  /// on the same stream may use it between reads.
  char *buffer() {
    open(readers);
    return readers.memory;
  }
  /// Allocates memory in a file. The first call also allocates the rings of
  /// pinned memory through which copies pass.
  Address allocate(const MemoryRequest &request);
  bool holds(Address address) const { return swap.holds(address); }
  void release(Address address) { swap.release(address); }
  /// Releases the rings of pinned memory. No copy may be running at this time.
  void close();

  /// Submit a copy to the stream. Work that is submitted to the stream later
  /// waits until `read` has put the bytes on the GPU, or until `write` has
  /// copied them from the GPU to pinned memory. A later read of the same bytes
  /// of the file waits until they are written to the file. With `repeats` the
  /// copy is captured in a graph.
  void read(StreamHandle stream, DevicePointer target, Address source,
            int64_t bytes, bool repeats);
  void write(StreamHandle stream, Address target, DevicePointer source,
             int64_t bytes, bool repeats);

  /// Throws the first error that occurred in a copy between a file and pinned
  /// memory.
  void checkTasks() {
    readers.tasks.check();
    writers.tasks.check();
  }
  /// Returns the offload files, for accesses by the host. During such an access
  /// no copy may be running. Throws the first error of earlier copies.
  OffloadMemory &memory() {
    checkTasks();
    return swap;
  }
  /// Reads rows from a file, in a host function that a stream calls. Waits
  /// until earlier writes of the same bytes are in the file.
  void readRows(char *target, Address source, const io::RowChoice &choice) {
    swap.readRows(target, source, choice);
  }
  /// Waits until all bytes that `write` has copied from the GPU are in the
  /// files. Throws the first error of earlier copies.
  void finish() {
    checkTasks();
    swap.await(swap.started());
  }
  io::OffloadTraffic traffic() const { return swap.traffic(); }
  /// Returns the measured times of copies that are not in graphs; null if no
  /// memory is in files.
  io::OffloadTimes *copyTimes() { return writers.memory ? &times : nullptr; }

private:
  static constexpr int64_t numSlots = 4; ///< Slots of a ring.
  static constexpr int64_t pieceBytes = plan::stagingRingBytes / numSlots;

  struct Ring {
    explicit Ring(const Driver &driver) : tasks(driver) {}
    char *slotOf(int64_t piece) const {
      return memory + piece % numSlots * pieceBytes;
    }
    /// The chunk `piece` of a copy passes through one slot of this ring of
    /// pinned memory. Returns the last transfer between this slot and a file.
    io::OffloadPoint &transferOf(int64_t piece) {
      return transfers[piece % numSlots];
    }

    /// The host functions for the copies that pass through this ring. The ring
    /// for reading and the ring for writing each have their own, so that reads
    /// of files do not wait for writes of files.
    HostTasks tasks;
    char *memory = nullptr;
    std::array<io::OffloadPoint, numSlots> transfers = {};
  };

  void open(Ring &ring);
  void startRead(Address source, int64_t bytes, int64_t piece);
  void startWrite(Address target, int64_t bytes, int64_t piece,
                  io::OffloadTime *time = nullptr);

  const Driver &driver;
  Ring readers, writers;
  io::OffloadTimes times; ///< Declared before `swap`, whose thread uses it
                          ///< until it ends.
  OffloadMemory swap;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_FILECOPIES_H
