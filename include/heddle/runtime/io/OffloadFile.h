//===- OffloadFile.h - Bytes that stand on a disk ------------------*- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// Where a file is, and how carefully it is read.
struct OffloadFolder {
  /// Made when it is absent. Empty: that of TMPDIR, or /tmp.
  std::string directory;
  bool checks = false; ///< See OffloadFile::verify.
};

/// The directory that is meant by one, or by "".
std::string swapDirectory(const std::string &directory);

/// Whether files there would take the system's memory: those of a file system
/// that is in memory, or that does not let its cache be passed by. Makes the
/// directory when it is absent; false where no file can be made in it.
bool fillsMemory(const std::string &directory);

/// What system calls have moved.
struct OffloadTraffic {
  int64_t readBytes = 0, writtenBytes = 0;
  int64_t requests = 0;
};

/// A file of a fixed size, zeros at first, that no other process sees: it loses
/// its name as soon as it is open, so nothing of it is left when the process
/// ends, however it ends. All of it is allocated at once: a full disk is found
/// at the start. The system's cache is passed by where the file system can.
class OffloadFile {
public:
  /// Whole pages are read and written, from offsets and in memory that are
  /// multiples of this.
  static constexpr int64_t pageBytes = 4096;
  /// Bytes of the pages that are read for a row of `rowBytes`, of a table that
  /// begins at `offset`: for each row as many as for one that lies worst.
  static int64_t bytesForRow(int64_t offset, int64_t rowBytes) {
    int64_t step = std::gcd(std::gcd(offset, rowBytes), pageBytes);
    int64_t end = pageBytes - step + rowBytes;
    return (end + pageBytes - 1) / pageBytes * pageBytes;
  }

  /// `bytes` are whole pages, and `owner` names them in errors. Removes what
  /// killed processes may have left in the directory. Throws H0295 when there
  /// is no room for the file, H0402 when none can be made in the directory.
  OffloadFile(const OffloadFolder &place, int64_t bytes,
              const std::string &owner);
  OffloadFile(const OffloadFile &) = delete;
  OffloadFile &operator=(const OffloadFile &) = delete;
  ~OffloadFile();

  int descriptor() const { return handle; }
  int64_t size() const { return bytes; }
  const std::string &directory() const { return path; }
  /// Whether the system's cache is passed by.
  bool isDirect() const { return direct; }

  /// Says what stands at an offset, as `the state h.0.attn.weight`, for errors.
  void nameBytes(std::function<std::string(int64_t offset)> name) {
    nameAt = std::move(name);
  }
  /// Throws H0461 for a request that failed for the reason `error` (an errno;
  /// 0: the file has come to an end).
  [[noreturn]] void failRequest(bool isWrite, int64_t offset, int64_t bytes,
                                int error) const;

  /// With `checks`: notes the checksums of pages that are about to be written.
  void note(int64_t offset, const char *memory, int64_t bytes);
  /// With `checks`: throws H0462 unless pages that were read are as they were
  /// written, if they were.
  void verify(int64_t offset, const char *memory, int64_t bytes) const;

private:
  /// In its directory, which is made too.
  void makeFile();
  void allocate(const std::string &owner);
  void passByCache();
  std::string describe(int64_t offset) const;

  std::string path;
  int64_t bytes;
  int handle = -1;
  bool direct = false;
  std::function<std::string(int64_t offset)> nameAt;
  std::vector<uint64_t> sums; ///< Of each page; 0: not written.
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_OFFLOADFILE_H
