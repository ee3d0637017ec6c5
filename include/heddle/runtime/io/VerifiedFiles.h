//===- VerifiedFiles.h - Files whose checksums were compared ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading a model once more for its checksum at every start would double the
// time that a start takes. So the cache directory remembers which files were
// found to have which checksum.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_VERIFIEDFILES_H
#define HEDDLE_RUNTIME_IO_VERIFIEDFILES_H

#include <string>

namespace heddle::io {

/// A file as it is now: its device, inode, size and times.
class FileVersion {
public:
  explicit FileVersion(const std::string &path);

  /// Whether this version of the file was found to have this checksum.
  bool isVerified(const std::string &digest) const;
  /// Remembers that it was. Does nothing where there is no cache directory, or
  /// if the file was written a moment ago: the clock of its times is coarse,
  /// and another write may leave them as they are.
  void remember(const std::string &digest) const;

private:
  std::string lineFor(const std::string &digest) const;

  std::string path, version;
  bool isOld = false;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_VERIFIEDFILES_H
