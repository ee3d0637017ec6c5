//===- MemoryImage.h - Memory kept in a file --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_MEMORYIMAGE_H
#define HEDDLE_RUNTIME_APP_MEMORYIMAGE_H

#include "heddle/runtime/core/Device.h"
#include "heddle/runtime/devices/cpu/ThreadPool.h"

#include <optional>
#include <string>
#include <vector>

namespace heddle::rt {

/// Bytes of a region of memory.
struct ImagePart {
  Address begin;
  int64_t offset = 0; ///< From the beginning of the region.
  int64_t bytes = 0;
};

/// How bytes come from a file into memory.
enum class LoadWay {
  Auto, ///< Mapped, where the file's pages are huge as the memory's own are.
  Map,  ///< The memory is the file's pages, shared with all who map them.
  Read, ///< Copied.
};

/// Parts of a region that the host sees, kept in a file: the parts in their
/// order, each at an offset that lies in a huge page as that in the region
/// does; then a checksum of each block; then who it belongs to.
class MemoryImage {
public:
  /// `key` says what the bytes are: a file with another one is not this. The
  /// device and the threads must outlive it.
  MemoryImage(Device &device, ThreadPool &threads,
              const std::vector<ImagePart> &parts, std::string key);

  /// Of the file.
  int64_t bytes() const;
  /// Writes the file as a whole or not at all. Throws H0401 or H0402.
  void write(const std::string &path, mode_t mode = 0600) const;
  /// Gives the memory the bytes of the file, and says in which way; none where
  /// there is no file. Throws H0482 when the file is damaged: the memory is
  /// then as it was, or zero.
  std::optional<LoadWay> load(const std::string &path, LoadWay way);

private:
  struct StoredPart : ImagePart {
    int64_t file = 0; ///< Where it stands in the file.
  };
  /// What has a checksum: at most a huge page, and in one of the file.
  struct Block {
    char *memory = nullptr;
    int64_t bytes = 0;
    int64_t file = 0;
  };
  /// The whole pages of a part, which can be mapped.
  struct Pages {
    int64_t first = 0, bytes = 0; ///< From the part's beginning.
  };
  static Pages pagesOf(const StoredPart &part);

  std::vector<uint64_t> checksums() const;
  std::string footerOf(const std::vector<uint64_t> &sums) const;
  std::vector<uint64_t> readChecksums(int file, const std::string &path) const;
  bool map(int file, const std::string &path);
  void unmap();
  bool isHuge() const;
  void readAround(int file, const std::string &path) const;
  void fill(int file, const std::string &path, LoadWay way,
            const std::vector<uint64_t> &sums) const;

  Device &device;
  ThreadPool &threads;
  std::string key;
  std::vector<StoredPart> parts;
  std::vector<Block> blocks;
  int64_t end = 0; ///< Of the last part in the file.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_MEMORYIMAGE_H
