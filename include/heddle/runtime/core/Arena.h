//===- Arena.h - One mapped region of memory --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// A mapping of exactly the bytes that a plan asks for, zeroed, and aligned to
/// a huge page when it is longer than one.
class Arena {
public:
  Arena() = default;
  /// Maps `bytes`, a multiple of the page size. `owner` names the region in the
  /// error when it cannot be had. With `guarded`, the page before it and the
  /// page after it fault. With `inFile`, a file without a name holds the bytes,
  /// in the directory that TMPDIR names or in /tmp.
  Arena(int64_t bytes, const std::string &owner, bool guarded = false,
        bool inFile = false);
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  char *data() const { return start; }
  int64_t size() const { return bytes; }

  /// Gives the pages back that lie whole in these bytes: they are zeros then.
  void discard(int64_t offset, int64_t count) const;
  /// Puts bytes of an open file, from `fileOffset` on, in the place of whole
  /// pages. They are shared with all who map them; what is written to them
  /// stays here. False, with the pages as they were, when the system refuses.
  /// `path` is named if the file loses the bytes.
  bool mapFile(int64_t offset, int64_t count, int descriptor,
               int64_t fileOffset, const std::string &path);
  /// Puts zeroed pages of their own in the place of those.
  void unmapFile(int64_t offset, int64_t count);

  /// Throws H0292: the bytes cannot be had.
  [[noreturn]] static void refuse(int64_t bytes, const std::string &owner);
  /// The size of a page of this machine.
  static int64_t pageSize();
  /// That of a huge page, to which regions are aligned.
  static constexpr int64_t hugePageBytes = int64_t(2) << 20;

private:
  void release();
  /// Whether a new file stands behind the bytes now.
  bool mapOwnFile();

  char *start = nullptr;
  int64_t bytes = 0;
  void *mapping = nullptr; ///< With the guard pages, if there are any.
  size_t mappingBytes = 0;
  /// By where they begin.
  std::map<const char *, io::NamedMapping> files;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_ARENA_H
