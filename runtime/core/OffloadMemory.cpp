//===- OffloadMemory.cpp - Memory of the kind File ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/OffloadMemory.h"

#include <algorithm>
#include <numeric>

using namespace heddle;
using namespace heddle::rt;

static constexpr int64_t page = io::OffloadFile::pageBytes;

Address OffloadMemory::allocate(const MemoryRequest &request) {
  plan::PerFile<int64_t> bytes = request.files;
  int64_t named =
      std::accumulate(bytes.values.begin(), bytes.values.end(), int64_t(0));
  bytes[plan::FileRole::Activations] += request.bytes - named;
  std::map<uintptr_t, io::OffloadFile> block;
  int64_t begin = 0;
  for (plan::FileRole role : plan::fileRoles) {
    if (bytes[role] == 0)
      continue;
    io::OffloadFolder place = {options.directories.of(role), options.checks};
    auto [entry, isNew] =
        block.try_emplace(next + begin, place, bytes[role],
                          request.owner + " (" + plan::nameOf(role) + ")");
    if (request.nameAt)
      entry->second.nameBytes([name = request.nameAt, begin](int64_t offset) {
        return name(begin + offset);
      });
    begin += bytes[role];
  }
  if (!stream)
    stream = std::make_unique<io::OffloadStream>(
        io::openBlockQueue(options.method, options.shape.depth), options.shape);
  files.merge(block);
  Address address(next);
  // A page is left between allocations. The address after the end of one
  // allocation then never belongs to another.
  next += request.bytes + page;
  return address;
}

void OffloadMemory::release(Address address) {
  try {
    await(started());
  } catch (const UserError &) {
    // Ignore the error: the call that waited for the failed transfer has
    // already thrown it. After an error no transfer is running, so the files
    // can be removed.
  }
  uintptr_t end = address.value();
  auto first = files.find(end), last = first;
  for (; last != files.end() && last->first == end; ++last)
    end += last->second.size();
  files.erase(first, last);
}

OffloadMemory::FileOffset OffloadMemory::fileOffsetOf(Address address) {
  auto &[begin, file] = *std::prev(files.upper_bound(address.value()));
  return {&file, int64_t(address.value() - begin)};
}

std::optional<io::OffloadPoint>
OffloadMemory::start(bool isWrite, const FileOffset &place, char *memory,
                     int64_t bytes, io::OffloadTime *time) {
  if (place.offset % page != 0 || uintptr_t(memory) % page != 0)
    return std::nullopt;
  int64_t whole = (bytes + page - 1) / page * page;
  if (whole == 0)
    return io::OffloadPoint();
  return stream->start(
      {isWrite, place.file, place.offset, memory, whole, time});
}

/// Runs a synchronous transfer and records its times.
template <typename F> static void timed(io::OffloadTime *time, F move) {
  io::OffloadTime here = {io::steadyNow(), 0};
  move();
  here.end = io::steadyNow();
  if (time)
    *time = here;
}

io::OffloadPoint OffloadMemory::startRead(char *target, Address source,
                                          int64_t bytes,
                                          io::OffloadTime *time) {
  if (auto begun = start(false, fileOffsetOf(source), target, bytes, time))
    return *begun;
  timed(time, [&] { read(target, source, bytes); });
  return {};
}

io::OffloadPoint OffloadMemory::startWrite(Address target, char *source,
                                           int64_t bytes,
                                           io::OffloadTime *time) {
  if (auto begun = start(true, fileOffsetOf(target), source, bytes, time))
    return *begun;
  timed(time, [&] { write(target, source, bytes); });
  return {};
}

void OffloadMemory::read(void *target, Address source, int64_t bytes) {
  FileOffset place = fileOffsetOf(source);
  stream->read(*place.file, place.offset, target, bytes);
}

void OffloadMemory::write(Address target, const void *source, int64_t bytes) {
  FileOffset place = fileOffsetOf(target);
  stream->write(*place.file, place.offset, source, bytes);
}

void OffloadMemory::readRows(char *target, Address source,
                             const io::RowChoice &choice) {
  FileOffset place = fileOffsetOf(source);
  stream->readRows(*place.file, place.offset, target, choice);
}

void OffloadMemory::fill(Address target, unsigned char value, int64_t bytes) {
  FileOffset place = fileOffsetOf(target);
  stream->fill(*place.file, place.offset, value, bytes);
}

void OffloadMemory::copy(Address target, Address source, int64_t bytes) {
  std::vector<char> piece(std::min(bytes, options.shape.requestBytes));
  for (int64_t at = 0; at < bytes; at += piece.size()) {
    int64_t count = std::min<int64_t>(piece.size(), bytes - at);
    read(piece.data(), source + at, count);
    write(target + at, piece.data(), count);
  }
}
