//===- CacheDirectory.cpp - The directory of cached files -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/CacheDirectory.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace fs = std::filesystem;

std::string heddle::io::cacheDirectory() {
  const char *cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache)
    return (fs::path(cache) / "heddle").string();
  const char *home = std::getenv("HOME");
  return home && *home ? (fs::path(home) / ".cache" / "heddle").string() : "";
}

namespace {

struct KeptFile {
  fs::file_time_type time;
  int64_t bytes = 0;
  fs::path path;
};

} // namespace

static std::vector<KeptFile> keptFiles(const std::string &directory) {
  std::vector<KeptFile> files;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    // Skip a file that another process has removed since the directory was
    // read.
    std::error_code gone;
    KeptFile file = {it->last_write_time(gone), int64_t(it->file_size(gone)),
                     it->path()};
    if (!gone)
      files.push_back(file);
  }
  return files;
}

static int64_t bytesOf(const std::vector<KeptFile> &files) {
  int64_t bytes = 0;
  for (const KeptFile &file : files)
    bytes += file.bytes;
  return bytes;
}

int64_t heddle::io::shareOfDisk(const std::string &directory, int64_t most) {
  std::error_code error;
  fs::space_info space = fs::space(directory, error);
  if (error)
    return most;
  int64_t own = bytesOf(keptFiles(directory));
  return std::min(most, (int64_t(space.available) + own) / 4);
}

void heddle::io::makeRoom(const std::string &directory, int64_t bytes,
                          int64_t limit) {
  std::vector<KeptFile> files = keptFiles(directory);
  std::sort(
      files.begin(), files.end(),
      [](const KeptFile &a, const KeptFile &b) { return a.time < b.time; });
  int64_t sum = bytes + bytesOf(files);
  for (const KeptFile &file : files) {
    if (sum <= limit)
      return;
    std::error_code gone;
    fs::remove(file.path, gone);
    sum -= file.bytes;
  }
}
