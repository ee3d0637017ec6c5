//===- Temporary.cpp - Temporary files and directories ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Temporary files and directories: names, locks, and removal also from a signal
// handler.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Temporary.h"
#include "heddle/runtime/io/File.h"
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::io;
namespace fs = std::filesystem;

//===----------------------------------------------------------------------===//
// Functions that are safe in signal handlers
//===----------------------------------------------------------------------===//

namespace {

/// A path that a signal handler removes when a signal ends the process. The
/// handler may run at any time, so a path only counts once `owner`, the process
/// id, is set. A forked child has another process id, and so does not remove
/// its parent's paths.
struct Slot {
  std::atomic<pid_t> owner;
  char path[PATH_MAX];
};

constexpr pid_t nobody = 0, underWay = -1;
Slot slots[32];

} // namespace

/// Removes an entry of an open directory. Only system calls are allowed here,
/// since a signal handler calls it.
static void removeEntry(int parent, const char *name) {
  if (unlinkat(parent, name, 0) == 0)
    return;
  int directory =
      openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (directory < 0)
    return;
  alignas(dirent64) char buffer[2048];
  long bytes;
  while ((bytes = syscall(SYS_getdents64, directory, buffer, sizeof buffer)) >
         0)
    for (long at = 0; at < bytes;) {
      const auto *entry = reinterpret_cast<const dirent64 *>(buffer + at);
      if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
        removeEntry(directory, entry->d_name);
      at += entry->d_reclen;
    }
  ::close(directory);
  unlinkat(parent, name, AT_REMOVEDIR);
}

void io::removeTree(const char *path) { removeEntry(AT_FDCWD, path); }

void io::removeTemporaries() {
  for (const Slot &slot : slots)
    if (slot.owner.load() == getpid())
      removeTree(slot.path);
}

RemovedAtEnd::RemovedAtEnd(const std::string &path) {
  if (path.size() >= PATH_MAX)
    return;
  for (size_t i = 0; i < std::size(slots) && slot < 0; ++i) {
    pid_t expected = nobody;
    if (slots[i].owner.compare_exchange_strong(expected, underWay))
      slot = static_cast<int>(i);
  }
  // If all `slots` have a path already, a signal handler does not remove this
  // file. A later process removes it with sweepTemporaries.
  if (slot < 0)
    return;
  std::memcpy(slots[slot].path, path.c_str(), path.size() + 1);
  slots[slot].owner.store(getpid());
}

RemovedAtEnd::~RemovedAtEnd() {
  if (slot >= 0)
    slots[slot].owner.store(nobody);
}

//===----------------------------------------------------------------------===//
// Locks
//===----------------------------------------------------------------------===//

int io::lockFile(int descriptor) {
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR)
      return errno;
  return 0;
}

bool io::isStillAt(int descriptor, const std::string &path) {
  struct stat opened, found;
  return fstat(descriptor, &opened) == 0 && lstat(path.c_str(), &found) == 0 &&
         opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

/// Whether the file of this name was left by a process that has ended.
static bool isAbandoned(const std::string &path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0)
    return false;
  bool isDirectory = S_ISDIR(status.st_mode);
  if (!isDirectory && !S_ISREG(status.st_mode))
    return false;
  // NFS only locks files that are open for writing.
  int flags = isDirectory ? O_RDONLY | O_DIRECTORY : O_RDWR;
  int handle = ::open(path.c_str(), flags | O_NOFOLLOW | O_CLOEXEC);
  if (handle < 0)
    return false;
  int reason = lockFile(handle);
  bool isSame = isStillAt(handle, path);
  ::close(handle);
  // A directory also counts as left over if the file system cannot lock
  // directories. That is safe, because temporary directories of checkpoints are
  // inside a directory that has a lock of its own.
  return isSame && (reason == 0 || (isDirectory && reason != EWOULDBLOCK));
}

bool io::isNameOfTemporary(const std::string &name, const std::string &stem) {
  return name.size() > stem.size() && name.compare(0, stem.size(), stem) == 0 &&
         name.find_first_not_of("0123456789-", stem.size()) ==
             std::string::npos;
}

void io::sweepTemporaries(
    const std::string &directory,
    const std::function<bool(const std::string &name)> &isTemporary) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error))
    if (isTemporary(it->path().filename().string()))
      found.push_back(it->path().string());
  for (const std::string &path : found)
    if (isAbandoned(path))
      removeTree(path.c_str());
}

//===----------------------------------------------------------------------===//
// Temporaries
//===----------------------------------------------------------------------===//

/// Returns the temporary name to try after `attempt` names that exist already.
static std::string candidateName(const std::string &stem, int attempt) {
  return stem + std::to_string(getpid()) +
         (attempt > 0 ? "-" + std::to_string(attempt) : "");
}

/// Creates, opens and locks the file; returns -1 and sets `errno` if that
/// fails.
static int makeTemporary(const std::string &path, Temporary::Kind kind,
                         mode_t mode) {
  bool isDirectory = kind == Temporary::Kind::Directory;
  if (isDirectory && mkdir(path.c_str(), 0777) != 0)
    return -1;
  int flags = isDirectory ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT | O_EXCL;
  int handle = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  // True if another process has removed the file between its creation and the
  // lock, because it took the file for one that a killed process has left.
  bool isSwept =
      handle < 0 ? isDirectory && errno == ENOENT
                 : lockFile(handle) == EWOULDBLOCK || !isStillAt(handle, path);
  if (!isSwept)
    return handle;
  if (handle >= 0)
    ::close(handle);
  errno = EEXIST;
  return -1;
}

Temporary::Temporary(const std::string &stem, Kind kind,
                     const std::string &purpose, mode_t mode) {
  constexpr int mostAttempts = 1000;
  for (int attempt = 0; handle < 0; ++attempt) {
    name = candidateName(stem, attempt);
    handle = makeTemporary(name, kind, mode);
    if (handle < 0 && (errno != EEXIST || attempt == mostAttempts))
      failToWrite(purpose, errno);
  }
  removal.emplace(name);
}

Temporary::~Temporary() {
  if (removal)
    removeTree(name.c_str());
  ::close(handle);
}

void Temporary::become(const std::string &path) {
  if (::rename(name.c_str(), path.c_str()) != 0)
    failToWrite(path, errno);
  removal.reset();
}
