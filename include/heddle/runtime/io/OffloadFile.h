//===- OffloadFile.h - Files that are used as memory ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files that hold offloaded states: temporary files of fixed size, read and
// written in whole pages past the page cache. OffloadStream transfers their
// bytes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_OFFLOADFILE_H
#define HEDDLE_RUNTIME_IO_OFFLOADFILE_H

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace heddle::io {

/// The directory of offload files, and whether their pages have checksums.
struct OffloadFolder {
  /// The path of the directory, which is created if it does not exist. If this
  /// is empty, the directory is $TMPDIR, or else /tmp.
  std::string directory;
  bool checks = false; ///< Compare pages that are read with their checksums.
};

/// Returns `directory`, or the default directory if it is empty.
std::string offloadDirectory(const std::string &directory);

/// Whether files in the directory would occupy main memory: the file system is
/// in memory, or does not allow direct I/O. Creates the directory; returns
/// false where no file can be created in it.
bool fillsMemory(const std::string &directory);

/// Bytes that system calls have moved, and the number of calls.
struct OffloadTraffic {
  int64_t readBytes = 0, writtenBytes = 0;
  int64_t requests = 0;
};

/// A file of fixed size, filled with zeros, that no other process sees. Its
/// name is removed once it is open, so nothing remains however the process
/// ends. All blocks are allocated at once, so that a full disk is found at the
/// start. Uses direct I/O where the file system supports it.
class OffloadFile {
public:
  /// Reads and writes cover whole pages: offsets, sizes and addresses are
  /// multiples of this.
  static constexpr int64_t pageBytes = 4096;
  /// Returns how many bytes are read for one row of a table. Whole pages are
  /// read, and a row may begin inside a page. The result is the maximum over
  /// all rows, so that rows in memory are at equal distances. `offset` is the
  /// table's offset in the file.
  static int64_t bytesForRow(int64_t offset, int64_t rowBytes) {
    int64_t step = std::gcd(std::gcd(offset, rowBytes), pageBytes);
    int64_t end = pageBytes - step + rowBytes;
    return (end + pageBytes - 1) / pageBytes * pageBytes;
  }

  /// `bytes` is a multiple of the page size; `owner` names the file in errors.
  /// Removes files that killed processes have left in the directory. Throws
  /// H0295 when the disk is full, H0402 when no file can be created.
  OffloadFile(const OffloadFolder &place, int64_t bytes,
              const std::string &owner);
  OffloadFile(const OffloadFile &) = delete;
  OffloadFile &operator=(const OffloadFile &) = delete;
  ~OffloadFile();

  int descriptor() const { return handle; }
  int64_t size() const { return bytes; }
  const std::string &directory() const { return path; }
  /// Whether the file is opened for direct I/O.
  bool isDirect() const { return direct; }

  /// Sets the function that names the bytes at an offset in errors, such as
  /// `the state h.0.attn.weight`.
  void nameBytes(std::function<std::string(int64_t offset)> name) {
    nameAt = std::move(name);
  }
  /// Throws H0461 for a request that failed; `error` is an errno, 0 at an
  /// unexpected end of file.
  [[noreturn]] void failRequest(bool isWrite, int64_t offset, int64_t bytes,
                                int error) const;

  /// Stores the checksums of pages that are about to be written. Does nothing
  /// unless OffloadFolder::checks is set.
  void note(int64_t offset, const char *memory, int64_t bytes);
  /// Throws H0462 if pages that were read differ from what was last written to
  /// them. Does nothing unless OffloadFolder::checks is set.
  void verify(int64_t offset, const char *memory, int64_t bytes) const;

private:
  /// Creates the directory and the file.
  void makeFile();
  void allocate(const std::string &owner);
  void passByCache();
  std::string describe(int64_t offset) const;

  std::string path;
  int64_t bytes;
  int handle = -1;
  bool direct = false;
  std::function<std::string(int64_t offset)> nameAt;
  std::vector<uint64_t> sums; ///< Checksum of each page; 0: never written.
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_OFFLOADFILE_H
