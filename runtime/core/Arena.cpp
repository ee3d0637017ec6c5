//===- Arena.cpp - A mapping for a plan's memory --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Arena.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

using namespace heddle::rt;

void Arena::refuse(int64_t bytes, const std::string &owner) {
  heddle::fail("H0292",
               "the plan needs " + std::to_string(bytes) + " bytes for " +
                   owner + ", which this machine does not give",
               "compile with a smaller --batch or --micro-batch, or with "
               "--recompute full");
}

/// The size of the machine's physical memory in bytes. If it is unknown, the
/// largest value, so that no allocation is refused.
static uint64_t physicalBytes() {
  long pages = sysconf(_SC_PHYS_PAGES);
  return pages < 0 ? UINT64_MAX : uint64_t(pages) * Arena::pageSize();
}

int64_t Arena::pageSize() { return sysconf(_SC_PAGESIZE); }

Arena::Arena(int64_t bytes, const std::string &owner, bool guarded, bool inFile)
    : bytes(bytes) {
  if (bytes == 0)
    return;
  if (bytes < 0 || bytes % pageSize() != 0)
    heddle::fail("H0385",
                 "the plan's size for " + owner +
                     " is not a whole number of pages",
                 "compile the binary again");
  if (!inFile && uint64_t(bytes) > physicalBytes())
    refuse(bytes, owner);

  size_t guard = guarded ? pageSize() : 0;
  size_t align = bytes >= hugePageBytes ? hugePageBytes : pageSize();
  size_t reserved = bytes + 2 * guard + align;
  void *base = mmap(nullptr, reserved, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    refuse(bytes, owner);
  uintptr_t low = reinterpret_cast<uintptr_t>(base);
  uintptr_t first = (low + guard + align - 1) / align * align;

  // The mapping is longer than needed, so that the region can be aligned inside
  // it. Unmap the bytes before and after the region and its guard pages.
  mapping = reinterpret_cast<void *>(first - guard);
  mappingBytes = bytes + 2 * guard;
  if (first - guard > low)
    munmap(base, first - guard - low);
  uintptr_t end = first - guard + mappingBytes;
  if (low + reserved > end)
    munmap(reinterpret_cast<void *>(end), low + reserved - end);

  start = reinterpret_cast<char *>(first);
  bool isThere = inFile ? mapOwnFile()
                        : mprotect(start, bytes, PROT_READ | PROT_WRITE) == 0;
  if (!isThere) {
    release();
    refuse(bytes, owner);
  }
  // Huge pages reduce TLB misses. If the system refuses them, the arena still
  // works.
  if (!inFile && bytes >= hugePageBytes)
    madvise(start, bytes, MADV_HUGEPAGE);
}

bool Arena::mapOwnFile() {
  const char *directory = getenv("TMPDIR");
  int file = open(directory && *directory ? directory : "/tmp",
                  O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0)
    return false;
  // Allocate the blocks of the whole file now. If the disk is full, this call
  // fails; without it, a later access to the memory would raise a signal.
  bool isThere = fallocate(file, 0, 0, bytes) == 0 ||
                 (errno == EOPNOTSUPP && ftruncate(file, bytes) == 0);
  bool isMapped =
      isThere && mmap(start, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
  close(file);
  return isMapped;
}

Arena::Arena(Arena &&other) noexcept { *this = std::move(other); }

Arena &Arena::operator=(Arena &&other) noexcept {
  std::swap(start, other.start);
  std::swap(bytes, other.bytes);
  std::swap(mapping, other.mapping);
  std::swap(mappingBytes, other.mappingBytes);
  std::swap(files, other.files);
  return *this;
}

Arena::~Arena() { release(); }

void Arena::release() {
  if (mapping)
    munmap(mapping, mappingBytes);
  files.clear();
  mapping = nullptr;
  start = nullptr;
}

void Arena::discard(int64_t offset, int64_t count) const {
  int64_t page = pageSize();
  int64_t first = (offset + page - 1) / page * page;
  int64_t end = (offset + count) / page * page;
  if (first < end)
    madvise(start + first, end - first, MADV_DONTNEED);
}

bool Arena::mapFile(int64_t offset, int64_t count, int descriptor,
                    int64_t fileOffset, const std::string &path) {
  void *mapped = mmap(start + offset, count, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_FIXED, descriptor, fileOffset);
  if (mapped == MAP_FAILED)
    return false;
  // Ask for huge pages. The system uses them for a mapped file only if the file
  // is cached in huge pages, as on tmpfs mounted with `huge=`.
  madvise(mapped, count, MADV_HUGEPAGE);
  files.try_emplace(start + offset, mapped, count, path);
  return true;
}

void Arena::unmapFile(int64_t offset, int64_t count) {
  void *mapped = mmap(start + offset, count, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    refuse(count, "weights");
  files.erase(start + offset);
  madvise(mapped, count, MADV_HUGEPAGE);
}
