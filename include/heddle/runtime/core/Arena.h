//===- Arena.h - A mapping for a plan's memory ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory that a plan asks for, as one mapping of this process.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_ARENA_H
#define HEDDLE_RUNTIME_CORE_ARENA_H

#include "heddle/runtime/io/File.h"
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace heddle::rt {

/// A zeroed mapping of exactly the bytes that a plan asks for. A mapping that
/// is longer than a huge page is aligned to one.
class Arena {
public:
  Arena() = default;
  /// Maps `bytes` bytes, a multiple of the page size. If the machine has too
  /// little memory, the error says that it is for `owner`. With `guarded`, an
  /// access to the page before the arena or to the page after it raises a
  /// fault. With `inFile`, an unnamed file in $TMPDIR or /tmp holds the bytes.
  Arena(int64_t bytes, const std::string &owner, bool guarded = false,
        bool inFile = false);
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  char *data() const { return start; }
  int64_t size() const { return bytes; }

  /// Frees the pages that lie completely in the range. They read as zeros
  /// afterwards.
  void discard(int64_t offset, int64_t count) const;
  /// Maps bytes of an open file, from `fileOffset` on, in place of whole pages
  /// of the arena. All processes that map the same bytes share the physical
  /// memory, but writes stay private. Returns false, and leaves the pages
  /// unchanged, if the system refuses. `path` appears in the error if the file
  /// is truncated later.
  bool mapFile(int64_t offset, int64_t count, int descriptor,
               int64_t fileOffset, const std::string &path);
  /// Replaces the pages of a range that `mapFile` has mapped by zeroed private
  /// ones.
  void unmapFile(int64_t offset, int64_t count);

  /// Throws H0292: too little memory.
  [[noreturn]] static void refuse(int64_t bytes, const std::string &owner);
  /// The size of a page of this machine.
  static int64_t pageSize();
  /// The size of a huge page.
  static constexpr int64_t hugePageBytes = int64_t(2) << 20;

private:
  void release();
  /// Maps a new unnamed file at the addresses of the arena, so that its bytes
  /// are in the file. Returns whether that was possible.
  bool mapOwnFile();

  char *start = nullptr;
  int64_t bytes = 0;
  /// The beginning of the mapping, guard pages included.
  void *mapping = nullptr;
  size_t mappingBytes = 0;
  /// The files that `mapFile` has mapped. The key is the address of the first
  /// byte of a mapping.
  std::map<const char *, io::NamedMapping> files;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_ARENA_H
