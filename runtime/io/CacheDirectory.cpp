//===- CacheDirectory.cpp - Where what can be made again is kept ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/CacheDirectory.h"

#include <cstdlib>
#include <filesystem>

namespace fs = std::filesystem;

std::string heddle::io::cacheDirectory() {
  const char *cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache)
    return (fs::path(cache) / "heddle").string();
  const char *home = std::getenv("HOME");
  return home && *home ? (fs::path(home) / ".cache" / "heddle").string() : "";
}
