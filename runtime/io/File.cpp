//===- File.cpp - Files mapped, and files written whole ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/File.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace heddle;
using namespace heddle::io;
namespace fs = std::filesystem;

static constexpr size_t bufferBytes = size_t(1) << 20;

/// Throws for a failed write: no space, or anything else.
[[noreturn]] static void failToWrite(const std::string &path, int error) {
  std::string reason = std::strerror(error);
  if (error == ENOSPC || error == EDQUOT)
    fail("H0401", "no space left to write " + path + ": " + reason,
         "free some space, or write to another file system");
  fail("H0402", "cannot write " + path + ": " + reason,
       "choose a directory that you may write to");
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

std::shared_ptr<const MappedFile> MappedFile::open(const std::string &path,
                                                   const std::string &code) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    fail(code, "cannot open " + path + ": " + std::strerror(errno),
         "check the path and its permissions");
  struct stat status;
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    fail(code, path + " is not a file", "name a regular file");
  }
  std::shared_ptr<MappedFile> file(new MappedFile());
  file->filePath = path;
  file->length = status.st_size;
  if (status.st_size > 0) {
    void *address =
        mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    int error = errno;
    ::close(descriptor);
    if (address == MAP_FAILED)
      fail(code, "cannot map " + path + ": " + std::strerror(error),
           "copy it to a local file system");
    file->bytes = static_cast<const uint8_t *>(address);
  } else {
    ::close(descriptor);
  }
  return file;
}

MappedFile::~MappedFile() {
  if (bytes)
    munmap(const_cast<uint8_t *>(bytes), length);
}

std::string io::readText(const std::string &path, const std::string &code) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path, code);
  return std::string(reinterpret_cast<const char *>(file->data()),
                     file->size());
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

struct OutputFile::Hash {
  XXH3_state_t state;
};

OutputFile::OutputFile(std::string target)
    : path(std::move(target)),
      temporary(path + ".tmp-" + std::to_string(getpid())), hash(new Hash()) {
  XXH3_64bits_reset(&hash->state);
  buffer.reserve(bufferBytes);
  descriptor =
      ::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0)
    failToWrite(path, errno);
}

OutputFile::~OutputFile() {
  if (descriptor < 0)
    return;
  ::close(descriptor);
  ::unlink(temporary.c_str());
}

/// Writes all bytes at an offset, however many calls it takes.
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
  writeFully(descriptor, path, buffer.data(), buffer.size(),
             written - static_cast<int64_t>(buffer.size()));
  buffer.clear();
}

void OutputFile::write(const void *data, int64_t bytes) {
  const uint8_t *source = static_cast<const uint8_t *>(data);
  XXH3_64bits_update(&hash->state, source, bytes);
  if (bytes + buffer.size() > bufferBytes)
    flush();
  if (static_cast<size_t>(bytes) >= bufferBytes)
    writeFully(descriptor, path, source, bytes, written);
  else
    buffer.insert(buffer.end(), source, source + bytes);
  written += bytes;
}

void OutputFile::rewrite(int64_t offset, const void *data, int64_t bytes) {
  flush();
  writeFully(descriptor, path, static_cast<const uint8_t *>(data), bytes,
             offset);
}

void OutputFile::commit() {
  flush();
  if (fsync(descriptor) != 0)
    failToWrite(path, errno);
  int closed = ::close(descriptor);
  descriptor = -1;
  if (closed != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    int error = errno;
    ::unlink(temporary.c_str());
    failToWrite(path, error);
  }
}

std::string OutputFile::digest() const {
  return hexDigest(XXH3_64bits_digest(&hash->state));
}

SharedFile::SharedFile(const std::string &path, int64_t bytes) : path(path) {
  int create = bytes < 0 ? 0 : O_CREAT | O_TRUNC;
  descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | create, 0666);
  if (descriptor < 0)
    failToWrite(path, errno);
  if (bytes < 0 || ftruncate(descriptor, bytes) == 0)
    return;
  int error = errno;
  ::close(descriptor);
  failToWrite(path, error);
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

std::string io::fileOfRank(const std::string &path, int64_t rank) {
  if (path.empty() || rank == 0)
    return path;
  size_t dot = path.rfind('.');
  if (dot == std::string::npos || path.find('/', dot) != std::string::npos)
    dot = path.size();
  return path.substr(0, dot) + ".rank" + std::to_string(rank) +
         path.substr(dot);
}

void io::writeText(const std::string &path, const std::string &text) {
  OutputFile out(path);
  out.write(text.data(), text.size());
  out.commit();
  syncDirectory(fs::path(path).parent_path().string());
}

void io::renameFile(const std::string &from, const std::string &to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    failToWrite(to, errno);
  syncDirectory(fs::path(to).parent_path().string());
}

void io::makeDirectories(const std::string &path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    failToWrite(path, error.value());
  if (!fs::is_directory(path, error))
    failToWrite(path, ENOTDIR);
}

void io::requireWritable(const std::string &directory) {
  makeDirectories(directory);
  std::string probe = directory + "/.heddle-probe-XXXXXX";
  int descriptor = mkstemp(probe.data());
  if (descriptor < 0)
    failToWrite(directory, errno);
  ::close(descriptor);
  ::unlink(probe.c_str());
}

bool io::pathExists(const std::string &path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<std::string> io::listDirectory(const std::string &path,
                                           const std::string &code) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error))
    names.push_back(it->path().filename().string());
  if (error)
    fail(code, "cannot read the directory " + path + ": " + error.message(),
         "check its permissions");
  std::sort(names.begin(), names.end());
  return names;
}

void io::syncDirectory(const std::string &path) {
  std::string name = path.empty() ? "." : path;
  int descriptor = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    failToWrite(name, errno);
  // Some file systems refuse to sync a directory; their renames are durable or
  // nothing can be done about it.
  int status = fsync(descriptor);
  int error = errno;
  ::close(descriptor);
  if (status != 0 && error != EINVAL && error != EROFS)
    failToWrite(name, error);
}

uint64_t io::hashBytes(const void *data, int64_t bytes) {
  return XXH3_64bits(data, bytes);
}

std::string io::hexDigest(uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(hash));
  return text;
}
