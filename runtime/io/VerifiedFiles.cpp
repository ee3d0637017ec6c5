//===- VerifiedFiles.cpp - Files whose checksums were compared --*- C++ -*-===//
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

/// The list is cut in half when it gets longer: it names 3,800 files then.
static constexpr size_t mostBytes = size_t(64) << 10;

/// Within this time after a write, a second one may leave the times of a file
/// as they are. Ticks of the kernel take up to 10 ms.
static constexpr double coarseSeconds = 0.1;

/// One line for each file; "" where there is no cache directory.
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
  // A clock that was set back makes no file old.
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
    return false; // A list that cannot be read names no files.
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
    return; // The file is read again at the next start.
  }
  int list = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
                    S_IRUSR | S_IWUSR);
  if (list < 0)
    return;
  std::string line = lineFor(digest);
  // A line that is cut off names no file.
  [[maybe_unused]] ssize_t written = ::write(list, line.data(), line.size());
  ::close(list);
}
