//===- CacheDirectory.h - Where what can be made again is kept --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_CACHEDIRECTORY_H
#define HEDDLE_RUNTIME_IO_CACHEDIRECTORY_H

#include <string>

namespace heddle::io {

/// $XDG_CACHE_HOME/heddle, or ~/.cache/heddle; empty where neither is set.
std::string cacheDirectory();

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_CACHEDIRECTORY_H
