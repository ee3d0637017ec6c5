//===- DirectoryLock.h - Lock a directory of checkpoints --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prevents two runs from saving checkpoints into the same directory.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_DIRECTORYLOCK_H
#define HEDDLE_RUNTIME_IO_DIRECTORYLOCK_H

#include "heddle/runtime/io/Temporary.h"

namespace heddle::io {

/// Locks a directory for this process while the object lives. The file
/// `.heddle-lock` in the directory names host and process. The system's lock on
/// that file tells whether the process still lives, on any host. Some file
/// systems have no locks. There, the process is looked up if the file names
/// this host, and assumed to live if the file names another host.
class DirectoryLock {
public:
  /// The directory must exist. Throws H0433, with host and process, when
  /// another process has the lock.
  explicit DirectoryLock(const std::string &directory);
  DirectoryLock(const DirectoryLock &) = delete;
  DirectoryLock &operator=(const DirectoryLock &) = delete;
  ~DirectoryLock();
  /// Whether the path still leads to the locked directory; false after it was
  /// renamed, or removed and created again.
  bool isHeld() const;

private:
  std::string path;
  int handle = -1;
  std::optional<RemovedAtEnd> removal;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_DIRECTORYLOCK_H
