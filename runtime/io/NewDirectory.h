//===- NewDirectory.h - Fill a new directory atomically ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Creates a directory with all its files at once, for `heddle checkpoint
// export` and similar commands.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_NEWDIRECTORY_H
#define HEDDLE_RUNTIME_IO_NEWDIRECTORY_H

#include "heddle/runtime/io/Temporary.h"

namespace heddle::io {

/// Creates a directory, or fills an empty one, once all its files are complete.
/// Until then the files are in a temporary directory inside it.
class NewDirectory {
public:
  /// Throws H0181 when the directory is not empty. Files that a killed process
  /// has left there do not count.
  explicit NewDirectory(const std::string &path);
  /// The directory into which files are written.
  const std::string &temporaryPath() const { return temporary->path(); }
  void commit();

private:
  std::string path;
  std::optional<Temporary> temporary;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_NEWDIRECTORY_H
