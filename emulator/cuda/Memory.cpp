//===- Memory.cpp - Memory of an emulated GPU -----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Allocates GPU memory as two mappings. The program gets the addresses of the
// first one. The host cannot access it, as it cannot access the memory of a
// real GPU. The second one has the bytes, which the emulator reads and writes.
//
//===----------------------------------------------------------------------===//

#include "emulator/cuda/Memory.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace heddle::rt::cuda;

/// A driver guarantees this alignment of addresses in bytes. Addresses have no
/// larger alignment, so that a program which relies on a larger one fails.
static constexpr size_t alignment = 256;
/// GPU memory that a context itself occupies.
static constexpr size_t contextBytes = size_t(512) << 20;

Memory::~Memory() {
  for (const auto &[address, allocation] : all)
    unmap(allocation);
}

Memory::Mapping Memory::map(size_t bytes, int protection) {
  void *start = mmap(nullptr, bytes, protection,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED)
    return {};
  return {static_cast<char *>(start), bytes};
}

void Memory::unmap(const Allocation &allocation) {
  for (const Mapping &mapping : {allocation.data, allocation.reserved})
    if (mapping.start)
      munmap(mapping.start, mapping.bytes);
}

size_t Memory::total() const { return settings.chip->memoryBytes; }

size_t Memory::free() const {
  size_t most = settings.freeBytes >= 0 ? size_t(settings.freeBytes)
                                        : total() - contextBytes;
  return most - std::min(most, used);
}

DevicePointer Memory::allocate(size_t bytes, bool onHost) {
  size_t page = sysconf(_SC_PAGESIZE);
  size_t physical = size_t(sysconf(_SC_PHYS_PAGES)) * page;
  if (bytes > physical || (!onHost && bytes > free()))
    return 0;
  Allocation made;
  made.bytes = bytes;
  made.onHost = onHost;
  made.data = map(bytes, PROT_READ | PROT_WRITE);
  made.contents = made.data.start;
  char *start = made.contents;
  if (!onHost && made.contents) {
    made.reserved = map(bytes + page, PROT_NONE);
    start = made.reserved.start;
    start += start ? alignment : 0;
  }
  if (!start) {
    unmap(made);
    return 0;
  }
  std::memset(made.contents, 0xff, bytes);
  made.name = (onHost ? "pinned memory " : "allocation ") +
              std::to_string(++this->made);
  used += onHost ? 0 : bytes;
  auto address = reinterpret_cast<DevicePointer>(start);
  all.emplace(address, made);
  tellMachine();
  return address;
}

bool Memory::release(DevicePointer address, bool onHost) {
  auto found = all.find(address);
  if (found == all.end() || found->second.onHost != onHost)
    return false;
  used -= onHost ? 0 : found->second.bytes;
  unmap(found->second);
  all.erase(found);
  tellMachine();
  return true;
}

const std::pair<const DevicePointer, Memory::Allocation> *
Memory::find(DevicePointer address) const {
  auto after = all.upper_bound(address);
  if (after == all.begin())
    return nullptr;
  const auto &found = *--after;
  return address - found.first < found.second.bytes ? &found : nullptr;
}

char *Memory::at(DevicePointer address, size_t bytes) const {
  const auto *found = find(address);
  if (!found || bytes > found->second.bytes - (address - found->first))
    return nullptr;
  return found->second.contents + (address - found->first);
}

bool Memory::isOnGpu(DevicePointer address) const {
  const auto *found = find(address);
  return found && !found->second.onHost;
}

void Memory::tellMachine() {
  known = {};
  for (const auto &[address, allocation] : all)
    known.add(allocation.name, address, allocation.contents, allocation.bytes);
}
