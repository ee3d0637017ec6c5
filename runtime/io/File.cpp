//===- File.cpp - Mapped files, directories, hashes -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/File.h"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace heddle;
using namespace heddle::io;
namespace fs = std::filesystem;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// All mapped files of this process. The handler of SIGBUS looks up in which
/// file a fault was, and may run at any time. So the entries are atomic.
static std::atomic<const NamedMapping *> mappings[1024];

/// Replaces `before` by `now` in the list of mappings.
static void exchangeMapped(const NamedMapping *before,
                           const NamedMapping *now) {
  for (std::atomic<const NamedMapping *> &place : mappings)
    if (const NamedMapping *expected = before;
        place.compare_exchange_strong(expected, now))
      return;
}

NamedMapping::NamedMapping(const void *begin, int64_t length, std::string path)
    : begin(static_cast<const char *>(begin)), name(std::move(path)) {
  int64_t page = sysconf(_SC_PAGESIZE);
  bytes = (length + page - 1) / page * page;
  exchangeMapped(nullptr, this);
}

NamedMapping::~NamedMapping() { exchangeMapped(this, nullptr); }

bool NamedMapping::holds(const void *address) const {
  const auto *byte = static_cast<const char *>(address);
  return byte >= begin && byte < begin + bytes;
}

const char *io::mappedFileAt(const void *address) {
  for (const std::atomic<const NamedMapping *> &place : mappings) {
    const NamedMapping *mapping = place.load();
    if (mapping && mapping->holds(address))
      return mapping->path();
  }
  return nullptr;
}

/// Throws H0379 for a pointer file, which a clone without Git LFS has in place
/// of a large file.
static void refusePointer(const MappedFile &file) {
  constexpr std::string_view begin = "version https://git-lfs.github.com/spec/";
  std::string_view text(reinterpret_cast<const char *>(file.data()),
                        size_t(std::min<int64_t>(file.size(), 512)));
  if (text.substr(0, begin.size()) != begin)
    return;
  size_t size = text.find("\nsize ");
  std::string bytes;
  if (size != std::string_view::npos)
    bytes = " (" +
            std::string(
                text.substr(size + 6, text.find('\n', size + 6) - size - 6)) +
            " bytes)";
  fail("H0379", "this is a pointer of Git LFS, not the file itself" + bytes,
       "run `git lfs pull` in its repository, or download the file",
       {file.path(), 0, 0});
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::string &path,
                                                   const std::string &code) {
  // O_NONBLOCK is set, because otherwise opening a named pipe would wait for a
  // writer. The check for a regular file below refuses the pipe.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
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
  file->descriptor = descriptor;
  if (status.st_size == 0)
    return file;
  void *address =
      mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED)
    fail(code, "cannot map " + path + ": " + std::strerror(errno),
         "copy it to a local file system");
  file->bytes = static_cast<const uint8_t *>(address);
  file->mapping.emplace(address, file->length, path);
  refusePointer(*file);
  return file;
}

MappedFile::~MappedFile() {
  ::close(descriptor);
  if (!bytes)
    return;
  mapping.reset();
  munmap(const_cast<uint8_t *>(bytes), length);
}

void MappedFile::read(int64_t offset, int64_t number, void *destination) const {
  auto *target = static_cast<char *>(destination);
  while (number > 0) {
    ssize_t done = pread(descriptor, target, number, offset);
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      fail("H0432",
           filePath + (done < 0 ? std::string(" cannot be read any more: ") +
                                      std::strerror(errno)
                                : " became shorter while it was in use"),
           "restore the file, and start again");
    target += done;
    number -= done;
    offset += done;
  }
}

void MappedFile::forget(int64_t offset, int64_t number) const {
  int64_t page = sysconf(_SC_PAGESIZE);
  int64_t first = offset / page * page;
  madvise(const_cast<uint8_t *>(bytes) + first, offset + number - first,
          MADV_DONTNEED);
}

std::string io::readText(const std::string &path, const std::string &code) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path, code);
  return std::string(reinterpret_cast<const char *>(file->data()),
                     file->size());
}

//===----------------------------------------------------------------------===//
// Directories and hashes
//===----------------------------------------------------------------------===//

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
  // Some file systems cannot sync a directory. Either their renames are
  // durable, or nothing can be done.
  int status = fsync(descriptor);
  int error = errno;
  ::close(descriptor);
  if (status != 0 && error != EINVAL && error != EROFS)
    failToWrite(name, error);
}

uint64_t io::hashBytes(const void *data, int64_t bytes) {
  return XXH3_64bits(data, bytes);
}

FileDigest io::digestFile(const std::string &path, const std::string &code) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<char> piece(int64_t(1) << 20);
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  int64_t bytes = 0;
  ssize_t count = file < 0 ? -1 : 1;
  while (count > 0 || (count < 0 && file >= 0 && errno == EINTR)) {
    count = ::read(file, piece.data(), piece.size());
    if (count > 0)
      XXH3_64bits_update(&state, piece.data(), count);
    bytes += std::max<ssize_t>(count, 0);
  }
  int error = errno;
  if (file >= 0)
    ::close(file);
  if (count < 0)
    fail(code, "cannot read " + path + ": " + std::strerror(error),
         "check the path and its permissions");
  return {bytes, hexDigest(XXH3_64bits_digest(&state))};
}

std::string io::hexDigest(uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(hash));
  return text;
}
