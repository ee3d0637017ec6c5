//===- MemoryImage.h - Memory saved in a file -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Saves ranges of memory in a file, which a later process maps or reads.
// WeightCache uses it, so that a server starts without converting its weights
// again.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_MEMORYIMAGE_H
#define HEDDLE_RUNTIME_APP_MEMORYIMAGE_H

#include "heddle/runtime/core/Device.h"
#include "heddle/runtime/devices/cpu/ThreadPool.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace heddle::rt {

/// A range of addresses whose bytes are saved in a file.
struct ImagePart {
  Address begin;
  int64_t offset = 0; ///< Offset in the region.
  int64_t bytes = 0;
};

/// How a file's bytes get into memory.
enum class LoadWay {
  /// Map the file if the file system gives it huge pages, so that access is as
  /// fast as to anonymous memory. Otherwise read it.
  Auto,
  Map,  ///< Map the file's pages, which processes share.
  Read, ///< Copy the file's bytes into memory.
};

/// Ranges of a device's memory, saved in a file. The file has the ranges in
/// order, then a checksum of each block, then the key that identifies the
/// content. A range has the same offset in a huge page of the file as in
/// memory, because files can only be mapped page by page. Memory that the host
/// cannot access is never mapped, but copied through pinned buffers.
class MemoryImage {
public:
  /// `key` identifies the content; a file with another key is not loaded.
  /// Device and threads must outlive this object.
  MemoryImage(Device &device, ThreadPool &threads,
              const std::vector<ImagePart> &parts, std::string key);

  /// Size of the file.
  int64_t bytes() const;
  /// Writes the file atomically. Throws H0401 or H0402.
  void write(const std::string &path, mode_t mode = 0600) const;
  /// Loads the file into memory. Returns whether it was mapped or read, or
  /// nothing if there is no file. Throws H0482 if the file is damaged; the
  /// memory then has its old content or zeros.
  std::optional<LoadWay> load(const std::string &path, LoadWay way);

private:
  struct StoredPart : ImagePart {
    int64_t file = 0; ///< Offset in the file.
  };
  /// Bytes with one checksum. A block does not cross the border of a huge page
  /// in the file.
  struct Block {
    Address memory;
    int64_t bytes = 0;
    int64_t file = 0;
  };
  /// The whole pages of a range, which can be mapped.
  struct Pages {
    int64_t first = 0, bytes = 0; ///< Offset from the beginning of the range.
  };
  static Pages pagesOf(const StoredPart &part);

  /// Calls `f` for consecutive blocks, from the first one to one before `end`,
  /// that are adjacent in memory and have at most `batchBytes` bytes together.
  void
  forEachBatch(const std::function<void(size_t first, size_t end)> &f) const;
  int64_t bytesOf(size_t first, size_t end) const;
  std::string footerOf(const std::vector<uint64_t> &sums) const;
  std::vector<uint64_t> readChecksums(int file, const std::string &path) const;
  bool map(int file, const std::string &path);
  void unmap();
  bool isHuge() const;
  void readAround(int file, const std::string &path) const;
  int64_t fill(int file, const std::string &path, LoadWay way,
               const std::vector<uint64_t> &sums) const;
  int64_t upload(int file, const std::vector<uint64_t> &sums) const;
  void clear();

  Device &device;
  ThreadPool &threads;
  std::string key;
  std::vector<StoredPart> parts;
  std::vector<Block> blocks;
  int64_t end = 0; ///< Offset in the file at which the last range ends.
  bool isSeen = true; ///< Whether the host can access the memory.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_MEMORYIMAGE_H
