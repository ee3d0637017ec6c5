//===- Temporary.h - Temporary files and directories ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Temporary files and directories. They are removed when their `Temporary`
// object is destroyed, or when a signal ends the process. If a process is
// killed, later processes can recognize its files as left over.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TEMPORARY_H
#define HEDDLE_RUNTIME_IO_TEMPORARY_H

#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>

namespace heddle::io {

/// Registers a path that `removeTemporaries` removes. The destructor of this
/// object cancels the registration.
class RemovedAtEnd {
public:
  explicit RemovedAtEnd(const std::string &path);
  RemovedAtEnd(const RemovedAtEnd &) = delete;
  RemovedAtEnd &operator=(const RemovedAtEnd &) = delete;
  ~RemovedAtEnd();

private:
  int slot = -1;
};

/// A file or directory with a temporary name. The destructor removes it with
/// its content, and so does a signal that ends the process. It is locked, so
/// that other processes can tell it from one that a killed process has left.
class Temporary {
public:
  enum class Kind { File, Directory };
  /// Creates a file or directory. Its name is `stem` followed by the process
  /// id, and by another number if that name exists. `purpose` is the path that
  /// the caller finally writes: errors name this path (see `failToWrite`).
  /// `mode` has the permissions of a file, from which the umask is subtracted.
  Temporary(const std::string &stem, Kind kind, const std::string &purpose,
            mode_t mode = 0666);
  Temporary(const Temporary &) = delete;
  Temporary &operator=(const Temporary &) = delete;
  ~Temporary();
  const std::string &path() const { return name; }
  /// Descriptor of a temporary file, open for reading and writing.
  int descriptor() const { return handle; }
  /// Renames the file or directory to `path`, replacing a file there. The
  /// destructor then does not remove it.
  void become(const std::string &path);

private:
  std::string name;
  int handle = -1;
  /// Lets a signal handler remove the file until it has its final name.
  std::optional<RemovedAtEnd> removal;
};

/// Locks an open file; returns an errno if that fails.
int lockFile(int descriptor);
/// Whether `path` still leads to the open file.
bool isStillAt(int descriptor, const std::string &path);

/// Whether `name` could be that of a `Temporary` with this stem: the stem,
/// followed by numbers.
bool isNameOfTemporary(const std::string &name, const std::string &stem);

/// Removes those entries of a directory for whose names `isTemporary` is true
/// and which no process has locked.
void sweepTemporaries(
    const std::string &directory,
    const std::function<bool(const std::string &name)> &isTemporary);

/// Removes a file, or a directory with its content. Safe in a signal handler.
void removeTree(const char *path);
/// Removes all temporary files of this process. Safe in a signal handler.
void removeTemporaries();

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TEMPORARY_H
