//===- OffloadMemory.h - Memory that stands in files ---------------*- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_OFFLOADMEMORY_H
#define HEDDLE_RUNTIME_CORE_OFFLOADMEMORY_H

#include "heddle/runtime/core/Device.h"
#include "heddle/runtime/io/OffloadDirectories.h"
#include "heddle/runtime/io/OffloadStream.h"

#include <map>

namespace heddle::rt {

/// How a device swaps.
struct OffloadOptions {
  io::OffloadDirectories directories;
  bool checks = false;         ///< See OffloadFile::verify.
  std::string method = "auto"; ///< See openBlockQueue.
  io::OffloadShape shape;
};

/// Memory of the kind File: each block is a swap file for each role that has
/// bytes in it. Its addresses are no pointer's, and nothing is mapped for them,
/// so it takes no memory of the process. Files and a thread are there once
/// something is allocated. What is read or written is of one file.
class OffloadMemory {
public:
  explicit OffloadMemory(const OffloadOptions &options) : options(options) {}

  /// Throws what OffloadFile throws.
  Address allocate(const MemoryRequest &request);
  /// Whether the address is one of those that were handed out.
  bool holds(Address address) const { return address.value() >= firstAddress; }
  void release(Address address);

  /// Begin to copy whole pages, as Device::copy says; what does not begin at
  /// pages has been copied when they return. `target` and `source` of the host.
  /// `time` as of OffloadTransfer. Give the point at which they have copied.
  io::OffloadPoint startRead(char *target, Address source, int64_t bytes,
                             io::OffloadTime *time = nullptr);
  io::OffloadPoint startWrite(Address target, char *source, int64_t bytes,
                              io::OffloadTime *time = nullptr);
  /// Have copied when they return, no byte more.
  void read(void *target, Address source, int64_t bytes);
  void write(Address target, const void *source, int64_t bytes);
  /// See OffloadStream::readRows.
  void readRows(char *target, Address source, const io::RowChoice &choice);
  void fill(Address target, unsigned char value, int64_t bytes);
  void copy(Address target, Address source, int64_t bytes);

  /// Whether something was allocated.
  bool isUsed() const { return stream != nullptr; }
  /// The copies that were begun.
  io::OffloadPoint started() const {
    return stream ? stream->started() : io::OffloadPoint();
  }
  /// Returns when these are done. Throws what failed.
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
  /// Begins a transfer of the pages, if they are.
  std::optional<io::OffloadPoint> start(bool isWrite, const FileOffset &place,
                                        char *memory, int64_t bytes,
                                        io::OffloadTime *time);

  /// No pointer of x86-64 is as large without being negative.
  static constexpr uintptr_t firstAddress = uintptr_t(1) << 62;

  OffloadOptions options;
  uintptr_t next = firstAddress;
  std::map<uintptr_t, io::OffloadFile> files; ///< By where they begin.
  std::unique_ptr<io::OffloadStream> stream;  ///< Ends before the files do.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_OFFLOADMEMORY_H
