//===- DirectoryLock.cpp - Lock a directory of checkpoints ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/DirectoryLock.h"
#include "heddle/runtime/io/File.h"
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::io;

namespace {

/// The process that has a lock. Process ids are reused, so the start time is
/// needed to identify a process.
struct Holder {
  std::string host;
  int64_t process = 0;
  std::string start;

  std::string text() const {
    return host + " " + std::to_string(process) + " " + start + "\n";
  }
  bool isThere() const;
};

} // namespace

/// Returns the start time of a process in kernel ticks; "" if it has ended.
static std::string startOf(int64_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  // /proc/PID/stat has the program's name in parentheses, and the name may
  // contain blanks. The start time is the 20th word after the parentheses.
  size_t name = text.rfind(')');
  if (name == std::string::npos)
    return "";
  std::istringstream words(text.substr(name + 1));
  constexpr int place = 20;
  std::string word;
  for (int i = 0; i < place; ++i)
    words >> word;
  return word;
}

static Holder thisProcess() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return {host, getpid(), startOf(getpid())};
}

/// Whether the process that has the lock may still be running. Needed on file
/// systems without locks. A process of another host is assumed to run.
bool Holder::isThere() const {
  if (process == 0)
    return false;
  if (host != thisProcess().host)
    return true;
  return (kill(pid_t(process), 0) == 0 || errno == EPERM) &&
         startOf(process) == start;
}

static Holder readHolder(int handle) {
  char text[512] = {};
  Holder holder;
  if (pread(handle, text, sizeof text - 1, 0) > 0)
    std::istringstream(text) >> holder.host >> holder.process >> holder.start;
  return holder;
}

[[noreturn]] static void refuse(const std::string &directory,
                                const std::string &path, const Holder &holder) {
  // The process that holds the lock is unknown if it has just created the lock
  // file and has not written its id into it yet.
  std::string who =
      holder.process
          ? "process " + std::to_string(holder.process) + " on " + holder.host
          : "a run that has just begun";
  std::string help = "wait until it ends, or save into another directory";
  if (holder.process && holder.host != thisProcess().host)
    help += "; if it is gone, remove " + path;
  fail("H0433", "another run saves into " + directory + ": " + who, help);
}

/// Opens the lock file and locks it. Returns -1 if another process has removed
/// the file meanwhile.
static int tryToLock(const std::string &directory, const std::string &path) {
  struct stat status;
  if (lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    fail("H0402", path + " is no regular file",
         "remove it: a run makes this file, and removes it when it ends");
  int handle =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (handle < 0)
    failToWrite(path, errno);
  int reason = lockFile(handle);
  Holder holder = readHolder(handle);
  bool isTaken = reason == EWOULDBLOCK || (reason != 0 && holder.isThere());
  if (!isTaken && isStillAt(handle, path))
    return handle;
  ::close(handle);
  if (isTaken)
    refuse(directory, path, holder);
  return -1;
}

DirectoryLock::DirectoryLock(const std::string &directory)
    : path(directory + "/.heddle-lock") {
  while (handle < 0)
    handle = tryToLock(directory, path);
  removal.emplace(path);
  std::string text = thisProcess().text();
  if (ftruncate(handle, 0) != 0 ||
      pwrite(handle, text.data(), text.size(), 0) != ssize_t(text.size())) {
    int error = errno;
    ::close(handle);
    failToWrite(path, error);
  }
}

bool DirectoryLock::isHeld() const { return isStillAt(handle, path); }

DirectoryLock::~DirectoryLock() {
  // Remove the file before the lock is released: afterwards another process may
  // have locked the file.
  if (isHeld())
    ::unlink(path.c_str());
  ::close(handle);
}
