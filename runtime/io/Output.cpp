//===- Output.cpp - Atomic outputs, and devices -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes output files atomically: writes a temporary file, and renames it when
// it is complete. For a device or pipe, copies the complete temporary file to
// it. Opens logs, which are written in place. Checks that no output overwrites
// an input.
//
//===----------------------------------------------------------------------===//

#include "CheckpointFormat.h"
#include "heddle/runtime/io/File.h"
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace heddle;
using namespace heddle::io;
namespace fs = std::filesystem;

static constexpr size_t bufferBytes = size_t(1) << 20;

void io::failToWrite(const std::string &path, int error) {
  std::string reason = std::strerror(error);
  if (error == ENOSPC || error == EDQUOT)
    fail("H0401", "no space left to write " + path + ": " + reason,
         "free some space, or write to another file system");
  if (error == ENAMETOOLONG)
    fail("H0184", "the name of an output is too long: " + path,
         "choose a name of at most " + std::to_string(NAME_MAX) +
             " bytes, and a path of less than " + std::to_string(PATH_MAX));
  fail("H0402", "cannot write " + path + ": " + reason,
       "choose a directory that you may write to");
}

//===----------------------------------------------------------------------===//
// Targets of outputs
//===----------------------------------------------------------------------===//

/// Returns the file descriptor that a path like `/dev/fd/3` names; -1 for other
/// paths.
static int descriptorOf(const std::string &path) {
  const std::string folders[] = {"/dev/fd/", "/proc/self/fd/",
                                 "/proc/" + std::to_string(getpid()) + "/fd/"};
  for (const std::string &folder : folders) {
    std::string rest = path.substr(0, folder.size()) == folder
                           ? path.substr(folder.size())
                           : "";
    if (!rest.empty() && rest.size() < 7 &&
        rest.find_first_not_of("0123456789") == std::string::npos)
      return std::stoi(rest);
  }
  return -1;
}

/// Returns the path to which a path's symbolic links lead, even if no file
/// exists there. An output is renamed to this path, because a rename onto a
/// link would replace the link. /dev/fd/N is not followed, since an open file
/// may have no name.
static std::string followLinks(const std::string &path) {
  constexpr int mostLinks = 40;
  fs::path at = path;
  for (int i = 0; i < mostLinks; ++i) {
    char link[PATH_MAX];
    ssize_t length = descriptorOf(at.string()) >= 0
                         ? -1
                         : readlink(at.c_str(), link, sizeof link);
    if (length < 0)
      return at.string();
    at = at.parent_path() / std::string(link, length);
  }
  failToWrite(path, ELOOP);
}

/// Whether `target` is a device or pipe. `target` is the result of followLinks
/// for the path `given`, which errors name.
static bool isDeviceAt(const std::string &target, const std::string &given) {
  if (descriptorOf(target) >= 0)
    return true;
  struct stat status;
  if (lstat(target.c_str(), &status) != 0) {
    if (errno != ENOENT)
      failToWrite(given, errno);
    return false;
  }
  if (S_ISDIR(status.st_mode))
    failToWrite(given, EISDIR);
  if (S_ISBLK(status.st_mode))
    fail("H0402", "cannot write " + given + ": it is a whole disk",
         "name a file");
  return !S_ISREG(status.st_mode);
}

bool io::isDevice(const std::string &path) {
  return isDeviceAt(followLinks(path), path);
}

/// Opens a device or pipe for writing. O_NONBLOCK is set, because otherwise the
/// call would wait for ever if nobody reads a named pipe.
static int openDevice(const std::string &target, const std::string &given) {
  constexpr int attempts = 250;
  constexpr useconds_t pause = 20000;
  int number = descriptorOf(target), handle = -1;
  if (number >= 0) {
    // Flush stdout and stderr, so that what the process has already printed
    // comes before this output.
    fflush(nullptr);
    handle = fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (handle < 0)
      failToWrite(given, errno);
    return handle;
  }
  for (int i = 0; handle < 0; ++i) {
    handle = ::open(target.c_str(),
                    O_WRONLY | O_NONBLOCK | O_NOCTTY | O_APPEND | O_CLOEXEC);
    if (handle >= 0)
      break;
    if (errno != ENXIO)
      failToWrite(given, errno);
    if (i == attempts)
      fail("H0430", "nothing reads from " + given,
           "start what reads it first, or name a file");
    usleep(pause);
  }
  fcntl(handle, F_SETFL, fcntl(handle, F_GETFL) & ~O_NONBLOCK);
  return handle;
}

/// Temporary files of an output are in the directory of `target`. Returns the
/// path with which their names begin. It is short enough that the file system
/// accepts the complete names.
static std::string stemOf(const std::string &target) {
  constexpr size_t roomForNumbers = 24;
  fs::path path = target;
  std::string name = path.filename().string();
  return (path.parent_path() / name.substr(0, NAME_MAX - roomForNumbers))
             .string() +
         ".tmp-";
}

/// Removes temporary files that killed runs have left for the same output.
static void sweepBeside(const std::string &stem) {
  fs::path path = stem;
  std::string prefix = path.filename().string();
  std::string directory = path.parent_path().string();
  sweepTemporaries(
      directory.empty() ? "." : directory,
      [&](const std::string &name) { return isNameOfTemporary(name, prefix); });
}

PendingOutput::PendingOutput(const std::string &path, mode_t mode)
    : given(path), target(followLinks(path)) {
  std::string stem;
  if (isDeviceAt(target, given)) {
    device = openDevice(target, given);
    std::error_code ignored;
    stem = (fs::temp_directory_path(ignored) / "heddle-").string();
    mode = 0600;
  } else {
    stem = stemOf(target);
    sweepBeside(stem);
  }
  temporary =
      std::make_unique<Temporary>(stem, Temporary::Kind::File, given, mode);
}

PendingOutput::~PendingOutput() {
  if (device >= 0)
    ::close(device);
}

int PendingOutput::descriptor() const { return temporary->descriptor(); }

const std::string &PendingOutput::temporaryPath() const {
  return temporary->path();
}

/// Copies a whole file to a device or pipe.
static void copyToDevice(int from, int device, const std::string &given) {
  std::vector<char> buffer(bufferBytes);
  int64_t position = 0;
  while (true) {
    ssize_t bytes = pread(from, buffer.data(), buffer.size(), position);
    if (bytes < 0)
      failToWrite(given, errno);
    if (bytes == 0)
      return;
    position += bytes;
    for (ssize_t done = 0; done < bytes;) {
      ssize_t now = ::write(device, buffer.data() + done, bytes - done);
      if (now < 0 && errno != EINTR)
        failToWrite(given, errno);
      done += std::max<ssize_t>(now, 0);
    }
  }
}

void PendingOutput::commit(bool isDurable) {
  if (device >= 0) {
    copyToDevice(descriptor(), device, given);
    temporary.reset();
    return;
  }
  if (isDurable && fsync(descriptor()) != 0)
    failToWrite(given, errno);
  temporary->become(target);
  temporary.reset();
  if (isDurable)
    syncDirectory(fs::path(target).parent_path().string());
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

struct OutputFile::Hash {
  XXH3_state_t state;
};

OutputFile::OutputFile(const std::string &target, mode_t mode)
    : path(target), output(target, mode), hash(new Hash()) {
  XXH3_64bits_reset(&hash->state);
  buffer.reserve(bufferBytes);
}

OutputFile::~OutputFile() = default;

/// Writes all bytes at an offset, with as many calls as needed.
static void writeFully(int descriptor, const std::string &path,
                       const uint8_t *data, int64_t bytes, int64_t offset) {
  while (bytes > 0) {
    ssize_t done = pwrite(descriptor, data, bytes, offset);
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      failToWrite(path, done < 0 ? errno : ENOSPC);
    data += done;
    bytes -= done;
    offset += done;
  }
}

void OutputFile::flush() {
  writeFully(output.descriptor(), path, buffer.data(), buffer.size(),
             written - static_cast<int64_t>(buffer.size()));
  buffer.clear();
}

void OutputFile::write(const void *data, int64_t bytes) {
  const uint8_t *source = static_cast<const uint8_t *>(data);
  XXH3_64bits_update(&hash->state, source, bytes);
  if (bytes + buffer.size() > bufferBytes)
    flush();
  if (static_cast<size_t>(bytes) >= bufferBytes)
    writeFully(output.descriptor(), path, source, bytes, written);
  else
    buffer.insert(buffer.end(), source, source + bytes);
  written += bytes;
}

void OutputFile::rewrite(int64_t offset, const void *data, int64_t bytes) {
  flush();
  writeFully(output.descriptor(), path, static_cast<const uint8_t *>(data),
             bytes, offset);
}

void OutputFile::commit(bool isDurable) {
  flush();
  output.commit(isDurable);
}

std::string OutputFile::digest() const {
  return hexDigest(XXH3_64bits_digest(&hash->state));
}

SharedFile::SharedFile(const std::string &path) : path(path) {
  descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0)
    failToWrite(path, errno);
}

SharedFile::~SharedFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

void SharedFile::write(int64_t offset, const void *data, int64_t bytes) {
  writeFully(descriptor, path, static_cast<const uint8_t *>(data), bytes,
             offset);
}

void SharedFile::commit() {
  if (fsync(descriptor) != 0)
    failToWrite(path, errno);
  int closed = ::close(descriptor);
  descriptor = -1;
  if (closed != 0)
    failToWrite(path, errno);
}

int io::openForLines(const std::string &path, bool append) {
  std::string target = followLinks(path);
  if (isDeviceAt(target, path))
    return openDevice(target, path);
  // O_APPEND is set, because another rank may append a line to this file when
  // this rank dies.
  int handle = ::open(
      target.c_str(),
      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (append ? 0 : O_TRUNC), 0666);
  if (handle < 0)
    failToWrite(path, errno);
  return handle;
}

std::string io::fileOfRank(const std::string &path, int64_t rank) {
  if (path.empty() || rank == 0)
    return path;
  if (isDevice(path))
    fail("H0185",
         "each rank writes a file of its own, but " + path + " is none",
         "name a file");
  size_t dot = path.rfind('.');
  if (dot == std::string::npos || path.find('/', dot) != std::string::npos)
    dot = path.size();
  return path.substr(0, dot) + ".rank" + std::to_string(rank) +
         path.substr(dot);
}

void io::writeText(const std::string &path, const std::string &text,
                   bool isDurable) {
  OutputFile out(path);
  out.write(text.data(), text.size());
  out.commit(isDurable);
}

void io::makeDirectories(const std::string &path) {
  std::error_code error;
  fs::create_directories(path, error);
  // Ignore EEXIST: a dangling symbolic link may be at the path. The check below
  // then reports that the path is no directory.
  if (error && error.value() != EEXIST)
    failToWrite(path, error.value());
  if (!fs::is_directory(path, error))
    failToWrite(path, ENOTDIR);
}

void io::requireWritable(const std::string &directory) {
  makeDirectories(directory);
  Temporary probe(directory + "/.heddle-probe-", Temporary::Kind::File,
                  directory);
}

void io::requireWritableOutput(const std::string &path) {
  std::string target = followLinks(path);
  if (isDeviceAt(target, path)) {
    if (descriptorOf(target) < 0 && access(target.c_str(), W_OK) != 0)
      failToWrite(path, errno);
    return;
  }
  std::string parent = fs::path(target).parent_path().string();
  makeDirectories(parent.empty() ? "." : parent);
  PendingOutput probe(path);
}

/// Returns the absolute path. Symbolic links in the part of the path that
/// exists are followed. Returns "" if that fails.
static fs::path wholePath(const std::string &path) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error)
    return "";
  return whole.has_filename() ? whole : whole.parent_path();
}

/// Returns a text that identifies a regular file: two paths of the same file
/// have the same text. The file need not exist. Returns "" if the path leads to
/// something other than a regular file.
static std::string identityOf(const std::string &path) {
  struct stat status;
  if (path.empty())
    return "";
  if (stat(path.c_str(), &status) == 0)
    return S_ISREG(status.st_mode) ? std::to_string(status.st_dev) + ":" +
                                         std::to_string(status.st_ino)
                                   : "";
  return wholePath(path).string();
}

/// Whether a file of this name belongs to a model.
static bool isOfModel(const fs::path &path) {
  std::string name = path.filename().string();
  return path.extension() == ".safetensors" || name == "config.json" ||
         name == "tokenizer.json" || name == "model.safetensors.index.json";
}

/// Returns those files in a directory that `isMeant` accepts, or none if the
/// directory does not exist.
static std::vector<std::string> filesIn(const fs::path &directory,
                                        bool (*isMeant)(const fs::path &path)) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error))
    if (isMeant(it->path()))
      files.push_back(it->path().string());
  return files;
}

void io::requireApart(const std::vector<NamedFile> &inputs,
                      const std::vector<NamedFile> &outputs) {
  // The key identifies a file (identityOf). The value is the end of the error
  // message, which says by which flag the file is used already.
  std::map<std::string, std::string> known;
  for (const auto &[flag, path] : inputs) {
    if (path.empty())
      continue;
    std::string reason =
        " would be written over what is read: " + flag + " " + path;
    known.insert({identityOf(path), reason});
    for (const std::string &file : filesIn(path, isOfModel))
      known.insert({identityOf(file), reason});
    // A checkpoint also has files in its folder `heddle/`, which an output must
    // not overwrite either.
    if (!pathExists(path + "/" + checkpoint::manifestFile))
      continue;
    for (const std::string &file : filesIn(
             fs::path(path) / "heddle", [](const fs::path &) { return true; }))
      known.insert({identityOf(file), reason});
  }
  known.erase("");
  for (const auto &[flag, path] : outputs) {
    std::string identity = identityOf(path);
    if (identity.empty())
      continue;
    std::string reason = " is the same file as " + flag + " ";
    auto [place, isNew] = known.insert({identity, reason + path});
    if (!isNew)
      fail("H0160", flag + " " + path + place->second,
           "name another file with " + flag);
    for (const auto &[other, directory] : outputs)
      if (isOfModel(path) && !directory.empty() &&
          wholePath(path).parent_path() == wholePath(directory))
        fail("H0160",
             flag + " " + path + " is a file of the model that " + other + " " +
                 directory + " is",
             "name another file with " + flag);
  }
}
