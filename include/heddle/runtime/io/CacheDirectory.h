//===- CacheDirectory.h - The directory of cached files ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The directory for files that can be made again (mapped weights, lists of
// verified files), and how its size is limited.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_CACHEDIRECTORY_H
#define HEDDLE_RUNTIME_IO_CACHEDIRECTORY_H

#include <cstdint>
#include <string>

namespace heddle::io {

/// Returns $XDG_CACHE_HOME/heddle if that variable is set, else
/// $HOME/.cache/heddle; empty if neither XDG_CACHE_HOME nor HOME is set.
std::string cacheDirectory();

/// Returns how many bytes the files of a directory may have together: the
/// smaller of `most` and a quarter of the bytes that are free on the file
/// system or used by these files.
int64_t shareOfDisk(const std::string &directory, int64_t most);

/// Removes the oldest files of a directory until its other files, and `bytes`
/// bytes more, fit into `limit` bytes. A process that has a removed file open
/// can still read it.
void makeRoom(const std::string &directory, int64_t bytes, int64_t limit);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_CACHEDIRECTORY_H
