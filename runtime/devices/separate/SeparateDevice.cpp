//===- SeparateDevice.cpp - A test device with memory of its own ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keeps a queue of work for each stream. A random generator chooses which queue
// advances, and a CpuDevice performs the work.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/separate/SeparateDevice.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <cstring>
#include <sys/mman.h>

using namespace heddle;
using namespace heddle::rt;

SeparateDevice::SeparateDevice(ThreadPool &pool, uint64_t seed)
    : cpu(pool), random(seed) {}

SeparateDevice::~SeparateDevice() {
  while (!blocks.empty())
    release(Address(blocks.begin()->first));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Address SeparateDevice::allocate(const MemoryRequest &request) {
  if (request.bytes == 0)
    return {};
  Block block;
  bool inFile = request.kind == MemoryKind::File;
  block.bytes = Arena(request.bytes, request.owner, request.guarded, inFile);
  void *start = block.bytes.data();
  if (request.kind == MemoryKind::Device || inFile) {
    start = mmap(nullptr, request.bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
      Arena::refuse(request.bytes, request.owner);
    block.reserved = request.bytes;
  }
  Address address(reinterpret_cast<uintptr_t>(start));
  blocks.emplace(address.value(), std::move(block));
  return address;
}

void SeparateDevice::release(Address address) {
  synchronize();
  auto found = blocks.find(address.value());
  if (found == blocks.end())
    return;
  if (found->second.reserved > 0)
    munmap(reinterpret_cast<void *>(address.value()), found->second.reserved);
  blocks.erase(found);
}

const std::pair<const uintptr_t, SeparateDevice::Block> *
SeparateDevice::blockAt(Address address) const {
  auto next = blocks.upper_bound(address.value());
  return next == blocks.begin() ? nullptr : &*std::prev(next);
}

char *SeparateDevice::bytesAt(Address address, int64_t bytes) const {
  if (address == Address() && bytes == 0)
    return nullptr;
  if (const auto *found = blockAt(address)) {
    int64_t offset = address - Address(found->first);
    const Arena &memory = found->second.bytes;
    if (bytes <= memory.size() - offset)
      return memory.data() + offset;
  }
  fail("H0412", "the device is asked for bytes that it did not hand out",
       "report this as a bug");
}

char *SeparateDevice::map(Address address) {
  const auto *found = blockAt(address);
  return found && found->second.reserved > 0 ? nullptr : bytesAt(address, 0);
}

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

void SeparateDevice::submit(Stream stream, const KernelLaunch &launch,
                            const Scratch &scratch) {
  Work work;
  work.launch = launch;
  work.scratch = scratch;
  add(stream, work);
}

void SeparateDevice::fill(Stream stream, Address target, unsigned char value,
                          int64_t bytes) {
  Work work;
  work.kind = Work::Kind::Fill;
  work.target = bytesAt(target, bytes);
  work.value = value;
  work.bytes = bytes;
  add(stream, work);
}

void SeparateDevice::addCopy(Stream stream, char *target, const char *source,
                             int64_t bytes) {
  Work work;
  work.kind = Work::Kind::Copy;
  work.target = target;
  work.source = source;
  work.bytes = bytes;
  add(stream, work);
}

void SeparateDevice::copy(Stream stream, Address target, Address source,
                          int64_t bytes) {
  addCopy(stream, bytesAt(target, bytes), bytesAt(source, bytes), bytes);
}

void SeparateDevice::copyRows(Stream stream, const RowCopy &rows) {
  Work work;
  work.kind = Work::Kind::CopyRows;
  work.target = bytesAt(rows.target, rows.count * rows.rowBytes);
  work.source = bytesAt(rows.source, rows.tableRows * rows.rowBytes);
  work.choice = {rows.rowBytes, rows.tableRows,
                 reinterpret_cast<const int32_t *>(
                     bytesAt(rows.ids, rows.count * sizeof(int32_t))),
                 rows.count, rows.first};
  add(stream, work);
}

void SeparateDevice::copyIn(Stream stream, Address target, const void *source,
                            int64_t bytes) {
  addCopy(stream, bytesAt(target, bytes), static_cast<const char *>(source),
          bytes);
}

void SeparateDevice::copyOut(Stream stream, void *target, Address source,
                             int64_t bytes) {
  addCopy(stream, static_cast<char *>(target), bytesAt(source, bytes), bytes);
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

Event SeparateDevice::makeEvent() {
  events.emplace_back();
  return {int64_t(events.size()) - 1};
}

void SeparateDevice::record(Stream stream, Event event) {
  Work work;
  work.kind = Work::Kind::Record;
  work.event = event;
  work.time = ++events[event.number].submitted;
  add(stream, work);
}

void SeparateDevice::wait(Stream stream, Event event) {
  Work work;
  work.kind = Work::Kind::Wait;
  work.event = event;
  work.time = events[event.number].submitted;
  add(stream, work);
}

void SeparateDevice::await(Event event) {
  Times &times = events[event.number];
  for (auto awaited = times.submitted; times.done < awaited;)
    advance();
}

void SeparateDevice::synchronize(Stream stream) {
  while (!queue(stream).empty())
    advance();
}

/// Adds work to the stream's queue. Most work waits for a synchronization, but
/// some of it, chosen at random, is performed early.
void SeparateDevice::add(Stream stream, const Work &work) {
  queue(stream).push_back(work);
  if (random() % 16 == 0)
    for (uint64_t count = random() % 8; count > 0; --count)
      advance();
}

bool SeparateDevice::isReady(const std::deque<Work> &queue) const {
  if (queue.empty())
    return false;
  const Work &work = queue.front();
  return work.kind != Work::Kind::Wait ||
         events[work.event.number].done >= work.time;
}

/// Performs the next work of one stream. A stream only ever waits for work that
/// was submitted earlier than the work that waits. Therefore at least one
/// stream can always advance, unless all queues are empty.
void SeparateDevice::advance() {
  size_t first = random() % queues.size();
  for (size_t i = 0; i < queues.size(); ++i) {
    std::deque<Work> &chosen = queues[(first + i) % queues.size()];
    if (!isReady(chosen))
      continue;
    Work work = chosen.front();
    chosen.pop_front();
    return perform(work);
  }
}

void SeparateDevice::perform(const Work &work) {
  switch (work.kind) {
  case Work::Kind::Launch:
    return cpu.submit(Stream::Compute, work.launch, work.scratch);
  case Work::Kind::Copy:
    memmove(work.target, work.source, work.bytes);
    return;
  case Work::Kind::CopyRows:
    return work.choice.gather(work.target, work.source);
  case Work::Kind::Fill:
    memset(work.target, work.value, work.bytes);
    return;
  case Work::Kind::Record:
    events[work.event.number].done = work.time;
    return;
  case Work::Kind::Wait:
    return;
  }
}
