//===- Temporary.h - What is there until its owner ends ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TEMPORARY_H
#define HEDDLE_RUNTIME_IO_TEMPORARY_H

#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>

namespace heddle::io {

/// A path that `removeTemporaries` removes as long as this object lives.
class RemovedAtEnd {
public:
  explicit RemovedAtEnd(const std::string &path);
  RemovedAtEnd(const RemovedAtEnd &) = delete;
  RemovedAtEnd &operator=(const RemovedAtEnd &) = delete;
  ~RemovedAtEnd();

private:
  int slot = -1;
};

/// A file or directory under a temporary name. It goes with this object, or
/// with the process when a signal ends that, with all that is in it. It is
/// locked, so that others can tell it from what a killed process has left.
class Temporary {
public:
  enum class Kind { File, Directory };
  /// Makes `stem` followed by the number of the process, and by another number
  /// where that name is taken. Throws as `failToWrite` does of `purpose`, the
  /// path that all is done for. `mode`: permissions of a file, less the umask.
  Temporary(const std::string &stem, Kind kind, const std::string &purpose,
            mode_t mode = 0666);
  Temporary(const Temporary &) = delete;
  Temporary &operator=(const Temporary &) = delete;
  ~Temporary();
  const std::string &path() const { return name; }
  /// Of a file: open for reading and writing.
  int descriptor() const { return handle; }
  /// Renames it, in place of a file that has the name; from then on it stays.
  void become(const std::string &path);

private:
  std::string name;
  int handle = -1;
  std::optional<RemovedAtEnd> removal; ///< Until it has its own name.
};

/// Takes the lock of an open file, or gives the reason (an errno) why not.
int lockFile(int descriptor);
/// Whether a path still leads to what is open.
bool isStillAt(int descriptor, const std::string &path);

/// Whether a `Temporary` with this stem could have the name: the stem, and
/// numbers.
bool isNameOfTemporary(const std::string &name, const std::string &stem);

/// Removes those entries of a directory for which `isTemporary` holds and that
/// no process has locked.
void sweepTemporaries(
    const std::string &directory,
    const std::function<bool(const std::string &name)> &isTemporary);

/// Removes a file, or a directory with all that is in it; may be called in the
/// handler of a signal.
void removeTree(const char *path);
/// Removes all that this process would remove at its end; may be called in the
/// handler of a signal.
void removeTemporaries();

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TEMPORARY_H
