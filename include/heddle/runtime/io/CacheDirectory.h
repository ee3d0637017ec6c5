//===- CacheDirectory.h - Where what can be made again is kept --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_CACHEDIRECTORY_H
#define HEDDLE_RUNTIME_IO_CACHEDIRECTORY_H

#include <cstdint>
#include <string>

namespace heddle::io {

/// $XDG_CACHE_HOME/heddle, or ~/.cache/heddle; empty where neither is set.
std::string cacheDirectory();

/// What the files of a directory may have in bytes, together: `most`, or a
/// quarter of what they and nobody else have on their file system.
int64_t shareOfDisk(const std::string &directory, int64_t most);

/// Removes the files of a directory whose times are the oldest, until `bytes`
/// more keep all together within `limit`. Who has a file open keeps its bytes.
void makeRoom(const std::string &directory, int64_t bytes, int64_t limit);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_CACHEDIRECTORY_H
