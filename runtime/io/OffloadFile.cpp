//===- OffloadFile.cpp - Files that are used as memory --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Creates, allocates and checks offload files.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/OffloadFile.h"
#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/OffloadDirectories.h"
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::io;
namespace fs = std::filesystem;

static constexpr const char *namePrefix = "heddle-swap-";

std::string io::offloadDirectory(const std::string &directory) {
  if (!directory.empty())
    return directory;
  const char *temporary = getenv("TMPDIR");
  return temporary && *temporary ? plainDirectory(temporary) : "/tmp";
}

OffloadFile::OffloadFile(const OffloadFolder &place, int64_t bytes,
                         const std::string &owner)
    : path(offloadDirectory(place.directory)), bytes(bytes) {
  try {
    makeFile();
  } catch (UserError &error) {
    error.diagnostic.notes.push_back("it is the swap directory of " + owner);
    error.diagnostic.help = "name another one with --swap-dir";
    throw;
  }
  try {
    allocate(owner);
  } catch (const UserError &) {
    ::close(handle);
    throw;
  }
  passByCache();
  if (place.checks)
    sums.resize(bytes / pageBytes);
}

void OffloadFile::makeFile() {
  makeDirectories(path);
  // The name of an offload file is removed once the file is open. A process
  // that is killed before that leaves the file in the directory. Remove only
  // regular files with such names: the directory may be /tmp, with other files.
  sweepTemporaries(path, [&](const std::string &name) {
    std::error_code error;
    return isNameOfTemporary(name, namePrefix) &&
           fs::is_regular_file(fs::symlink_status(path + "/" + name, error));
  });
  Temporary named(path + "/" + namePrefix, Temporary::Kind::File, path, 0600);
  handle = fcntl(named.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (handle < 0)
    failToWrite(path, errno);
}

OffloadFile::~OffloadFile() { ::close(handle); }

void OffloadFile::allocate(const std::string &owner) {
  if (fallocate(handle, 0, 0, bytes) == 0)
    return;
  // NFS cannot allocate blocks in advance.
  if (errno == EOPNOTSUPP && ftruncate(handle, bytes) == 0)
    return;
  int error = errno;
  struct statvfs disk = {};
  std::string room =
      statvfs(path.c_str(), &disk) == 0
          ? std::to_string(int64_t(disk.f_bavail) * int64_t(disk.f_frsize)) +
                " bytes are free there"
          : "";
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    fail("H0295",
         "the swap directory " + path + " has no room for the " +
             std::to_string(bytes) + " bytes of " + owner + ": " +
             std::strerror(error) + "; " + room,
         "free some space, or name a directory on another disk with "
         "--swap-dir");
  failToWrite(path, error);
}

/// Whether the file system is in memory. Its type is checked, because O_DIRECT
/// does not tell: tmpfs of newer Linux kernels accepts O_DIRECT too.
static bool isInMemory(int handle) {
  constexpr long tmpfs = 0x01021994, ramfs = 0x858458f6;
  struct statfs system = {};
  return fstatfs(handle, &system) == 0 &&
         (long(system.f_type) == tmpfs || long(system.f_type) == ramfs);
}

bool io::fillsMemory(const std::string &directory) {
  try {
    return !OffloadFile({directory}, OffloadFile::pageBytes, "a page")
                .isDirect();
  } catch (const UserError &) {
    return false; // Creating the file will report the error.
  }
}

void OffloadFile::passByCache() {
  if (isInMemory(handle))
    return;
  int flags = fcntl(handle, F_GETFL);
  if (fcntl(handle, F_SETFL, flags | O_DIRECT) != 0)
    return;
  // Some file systems accept the flag O_DIRECT and then fail every read.
  // Therefore try to read one page, and clear the flag if that fails.
  void *page = nullptr;
  if (posix_memalign(&page, pageBytes, pageBytes) != 0)
    return;
  direct = pread(handle, page, pageBytes, 0) == pageBytes || bytes == 0;
  free(page);
  if (!direct)
    fcntl(handle, F_SETFL, flags);
}

std::string OffloadFile::describe(int64_t offset) const {
  return (nameAt ? nameAt(offset) : "the data") + ", at byte " +
         std::to_string(offset) + " of the offload file in " + path;
}

void OffloadFile::failRequest(bool isWrite, int64_t offset, int64_t count,
                              int error) const {
  fail("H0461",
       "cannot " + std::string(isWrite ? "write " : "read ") +
           std::to_string(count) + " bytes of " + describe(offset) + ": " +
           (error ? std::strerror(error) : "the file ends before them"),
       "check the disk, or name a directory on another one with --swap-dir; "
       "what was not saved is lost: go on from the last checkpoint with "
       "--resume");
}

/// Returns the checksum of a page. It is never 0, because 0 in `sums` means
/// that the page was not written yet.
static uint64_t sumOf(const char *page) {
  return hashBytes(page, OffloadFile::pageBytes) | 1;
}

void OffloadFile::note(int64_t offset, const char *memory, int64_t count) {
  if (sums.empty())
    return;
  for (int64_t at = 0; at < count; at += pageBytes)
    sums[(offset + at) / pageBytes] = sumOf(memory + at);
}

void OffloadFile::verify(int64_t offset, const char *memory,
                         int64_t count) const {
  if (sums.empty())
    return;
  for (int64_t at = 0; at < count; at += pageBytes) {
    uint64_t expected = sums[(offset + at) / pageBytes];
    if (expected && expected != sumOf(memory + at))
      fail("H0462",
           "the disk does not give back what was written to it: " +
               describe(offset + at),
           "check the disk, or name a directory on another one with "
           "--swap-dir; go on from the last checkpoint with --resume");
  }
}
