//===- NewDirectory.h - A directory that is filled whole --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_NEWDIRECTORY_H
#define HEDDLE_RUNTIME_IO_NEWDIRECTORY_H

#include "heddle/runtime/io/Temporary.h"

namespace heddle::io {

/// A directory that did not exist or was empty, and gets all its files once
/// they are complete. Until then they are in a temporary one inside of it.
class NewDirectory {
public:
  /// Throws H0181 when something is in the directory, unless a process that was
  /// killed has left it there.
  explicit NewDirectory(const std::string &path);
  /// Where files are to be written.
  const std::string &temporaryPath() const { return temporary->path(); }
  void commit();

private:
  std::string path;
  std::optional<Temporary> temporary;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_NEWDIRECTORY_H
