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

/// Memory of the kind File, and copies between it and a GPU. A copy goes piece
/// by piece through a ring of pinned memory. There is a ring for each
/// direction, so that some pieces are between file and ring while another one
/// is between ring and GPU. One stream reads and one writes, and a copy uses
/// the whole ring.
class FileCopies {
public:
  FileCopies(const Driver &driver, const OffloadOptions &options)
      : driver(driver), readers(driver), writers(driver), swap(options) {}
  ~FileCopies() { close(); }

  /// Allocates the rings that fit into `bytes`, the readers' first.
  void stage(int64_t bytes);
  int64_t stagedBytes() const;
  /// The readers' ring as a buffer for other copies on the same stream.
  char *buffer() {
    open(readers);
    return readers.memory;
  }
  /// Allocates memory on file, and the rings with the first call.
  Address allocate(const MemoryRequest &request);
  bool holds(Address address) const { return swap.holds(address); }
  void release(Address address) { swap.release(address); }
  /// Releases the rings. No copy may be running.
  void close();

  /// `read` and `write` submit a copy to the stream. Later work of the stream
  /// runs when the bytes are on the GPU (`read`), or are copied from the GPU to
  /// pinned memory (`write`). A later read of the same bytes of the file waits
  /// until they are written. With `repeats` the copy is captured in a graph.
  void read(StreamHandle stream, DevicePointer target, Address source,
            int64_t bytes, bool repeats);
  void write(StreamHandle stream, Address target, DevicePointer source,
             int64_t bytes, bool repeats);

  /// Throws the first error of earlier copies.
  void checkTasks() {
    readers.tasks.check();
    writers.tasks.check();
  }
  /// The offloaded memory, which the host may access while both streams are
  /// idle. Throws the first error of earlier copies.
  OffloadMemory &memory() {
    checkTasks();
    return swap;
  }
  /// Reads rows for a host function that runs in the order of the stream. Waits
  /// for earlier writes of the same bytes.
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
  /// The times of copies outside of graphs; null if nothing is on file.
  io::OffloadTimes *copyTimes() { return writers.memory ? &times : nullptr; }

private:
  static constexpr int64_t numSlots = 4; ///< Slots of a ring.
  static constexpr int64_t pieceBytes = plan::stagingRingBytes / numSlots;

  struct Ring {
    explicit Ring(const Driver &driver) : tasks(driver) {}
    char *slotOf(int64_t piece) const {
      return memory + piece % numSlots * pieceBytes;
    }
    /// The last transfer between a file and the slot of a piece.
    io::OffloadPoint &transferOf(int64_t piece) {
      return transfers[piece % numSlots];
    }

    HostTasks tasks; ///< Separate for each ring, so that one direction does not
                     ///< wait for the other's transfers.
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
