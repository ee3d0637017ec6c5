//===- VerifiedFiles.h - Remember which files were verified -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Remembers, in the cache directory, which versions of files had the right
// checksum. Reading a whole model for its checksum at every start would double
// the time that a start takes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_VERIFIEDFILES_H
#define HEDDLE_RUNTIME_IO_VERIFIEDFILES_H

#include <string>

namespace heddle::io {

/// Identifies a version of a file: device, inode, size and times.
class FileVersion {
public:
  explicit FileVersion(const std::string &path);

  /// Whether `remember` was called for this version of the file with this
  /// checksum, maybe by an earlier process.
  bool isVerified(const std::string &digest) const;
  /// Remembers that this version has this checksum. Does nothing if there is no
  /// cache directory. Does nothing either if the file was written a moment ago,
  /// because file times are coarse: a further write might leave the time, and
  /// so the version, unchanged.
  void remember(const std::string &digest) const;

private:
  std::string lineFor(const std::string &digest) const;

  std::string path, version;
  bool isOld = false;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_VERIFIEDFILES_H
