//===- VerifiedFiles.cpp - Remember which files were verified ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/VerifiedFiles.h"
#include "heddle/runtime/io/CacheDirectory.h"
#include "heddle/runtime/io/File.h"

#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::io;

/// The most bytes of the file that lists verified files, enough for about 3,800
/// of them. If the list is longer, its older half is dropped.
static constexpr size_t mostBytes = size_t(64) << 10;

/// A file that was written less than this many seconds ago is not remembered as
/// verified. File times have the resolution of a kernel tick, up to 10 ms, so
/// that another write within the tick may leave them unchanged.
static constexpr double coarseSeconds = 0.1;

/// Returns the path of the list of verified files, which has a line for each of
/// them. Returns "" if there is no cache directory.
static std::string listFile() {
  std::string directory = cacheDirectory();
  return directory.empty() ? "" : directory + "/verified";
}

static std::string readList() {
  std::string file = listFile();
  return !file.empty() && pathExists(file) ? readText(file, "H0301") : "";
}

static double secondsOf(const timespec &time) {
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

FileVersion::FileVersion(const std::string &path) : path(path) {
  struct stat status = {};
  timespec now = {};
  if (::stat(path.c_str(), &status) != 0 ||
      ::clock_gettime(CLOCK_REALTIME, &now) != 0)
    return;
  for (int64_t number :
       {int64_t(status.st_dev), int64_t(status.st_ino), int64_t(status.st_size),
        int64_t(status.st_mtim.tv_sec), int64_t(status.st_mtim.tv_nsec),
        int64_t(status.st_ctim.tv_sec), int64_t(status.st_ctim.tv_nsec)})
    version += std::to_string(number) + " ";
  // If the clock was set back, the difference is negative. The file then counts
  // as just written, which is safe: it is only verified again.
  isOld = secondsOf(now) - secondsOf(status.st_ctim) > coarseSeconds;
}

std::string FileVersion::lineFor(const std::string &digest) const {
  std::string text = version + digest;
  return hexDigest(hashBytes(text.data(), text.size())) + "\n";
}

bool FileVersion::isVerified(const std::string &digest) const {
  try {
    return !version.empty() &&
           ("\n" + readList()).find("\n" + lineFor(digest)) !=
               std::string::npos;
  } catch (const UserError &) {
    return false; // A list that cannot be read is empty.
  }
}

void FileVersion::remember(const std::string &digest) const {
  std::string file = listFile();
  if (file.empty() || !isOld || FileVersion(path).version != version)
    return;
  try {
    makeDirectories(cacheDirectory());
    if (std::string list = readList(); list.size() > mostBytes)
      writeText(file, list.substr(list.find('\n', list.size() / 2) + 1),
                /*isDurable=*/false);
  } catch (const UserError &) {
    return; // Then the file is verified again at the next start.
  }
  int list = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
                    S_IRUSR | S_IWUSR);
  if (list < 0)
    return;
  std::string line = lineFor(digest);
  // The result may be ignored: if only a part of the line is written, the line
  // matches no file, and this file is verified again at the next start.
  [[maybe_unused]] ssize_t written = ::write(list, line.data(), line.size());
  ::close(list);
}
