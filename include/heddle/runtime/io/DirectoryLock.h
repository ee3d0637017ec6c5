//===- DirectoryLock.h - One run at a time saves here -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_DIRECTORYLOCK_H
#define HEDDLE_RUNTIME_IO_DIRECTORYLOCK_H

#include "heddle/runtime/io/Temporary.h"

namespace heddle::io {

/// Keeps a directory for this process while it lives. The file `.heddle-lock`
/// in it names host and process; the system's lock on that file says whether
/// the process is still there, on whatever host. A file system without locks
/// leaves it to the names: a process of this host that is gone has lost its
/// lock, and one of another host is taken to be there.
class DirectoryLock {
public:
  /// The directory must be there. Throws H0433, with host and process, when
  /// another process has it.
  explicit DirectoryLock(const std::string &directory);
  DirectoryLock(const DirectoryLock &) = delete;
  DirectoryLock &operator=(const DirectoryLock &) = delete;
  ~DirectoryLock();
  /// Whether the directory at that path is still the one that is kept; not when
  /// it was renamed, or removed and made anew.
  bool isHeld() const;

private:
  std::string path;
  int handle = -1;
  std::optional<RemovedAtEnd> removal;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_DIRECTORYLOCK_H
