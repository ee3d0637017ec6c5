//===- OffloadMemory.h - Memory of the kind File ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory of the kind File for a device: allocations are offload files.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_OFFLOADMEMORY_H
#define HEDDLE_RUNTIME_CORE_OFFLOADMEMORY_H

#include "heddle/runtime/core/Device.h"
#include "heddle/runtime/io/OffloadDirectories.h"
#include "heddle/runtime/io/OffloadStream.h"

#include <map>

namespace heddle::rt {

/// Options of offload files.
struct OffloadOptions {
  io::OffloadDirectories directories;
  bool checks = false; ///< Whether reads are verified; see OffloadFile::verify.
  std::string method = "auto"; ///< The way of access; see openBlockQueue.
  io::OffloadShape shape;
};

/// Memory of the kind File. An allocation has one offload file for each kind of
/// data in it: optimizer states, parameters, gradients, activations. Its
/// addresses are not pointers. The files are not mapped, so an allocation takes
/// no memory of the process. Files and the thread for transfers are created at
/// the first allocation. A read or write must not cross from one file into
/// another.
class OffloadMemory {
public:
  explicit OffloadMemory(const OffloadOptions &options) : options(options) {}

  /// Creates the offload files and returns the first address. Throws what
  /// OffloadFile throws.
  Address allocate(const MemoryRequest &request);
  /// Whether the address belongs to this memory.
  bool holds(Address address) const { return address.value() >= firstAddress; }
  void release(Address address);

  /// startRead and startWrite start a copy of whole pages between a file and
  /// host memory, as Device::copy describes. The result is what `await` takes.
  /// If the bytes do not begin at a page, the copy is already done when the
  /// function returns. If `time` is not null, the times of the copy are written
  /// to it, as in OffloadTransfer.
  io::OffloadPoint startRead(char *target, Address source, int64_t bytes,
                             io::OffloadTime *time = nullptr);
  io::OffloadPoint startWrite(Address target, char *source, int64_t bytes,
                              io::OffloadTime *time = nullptr);
  /// `read` and `write` copy exactly `bytes` bytes between memory and an
  /// offload file, and return when the copy is done.
  void read(void *target, Address source, int64_t bytes);
  void write(Address target, const void *source, int64_t bytes);
  /// See OffloadStream::readRows.
  void readRows(char *target, Address source, const io::RowChoice &choice);
  void fill(Address target, unsigned char value, int64_t bytes);
  void copy(Address target, Address source, int64_t bytes);

  /// Whether anything was allocated.
  bool isUsed() const { return stream != nullptr; }
  /// Returns a point for `await`, which then waits for all copies started so
  /// far.
  io::OffloadPoint started() const {
    return stream ? stream->started() : io::OffloadPoint();
  }
  /// Waits until all copies up to `point` are done. Throws their errors.
  void await(const io::OffloadPoint &point) const {
    if (stream)
      stream->await(point);
  }
  io::OffloadTraffic traffic() const {
    return stream ? stream->traffic() : io::OffloadTraffic();
  }

private:
  struct FileOffset {
    io::OffloadFile *file;
    int64_t offset;
  };
  FileOffset fileOffsetOf(Address address);
  /// Starts a transfer if the bytes are whole pages.
  std::optional<io::OffloadPoint> start(bool isWrite, const FileOffset &place,
                                        char *memory, int64_t bytes,
                                        io::OffloadTime *time);

  /// The first address of this memory. It is larger than any pointer to memory
  /// of a process on x86-64, so `holds` can tell the two apart.
  static constexpr uintptr_t firstAddress = uintptr_t(1) << 62;

  OffloadOptions options;
  uintptr_t next = firstAddress;
  /// The files, each with its first address as the key.
  std::map<uintptr_t, io::OffloadFile> files;
  std::unique_ptr<io::OffloadStream> stream; ///< Destroyed before the files.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_OFFLOADMEMORY_H
