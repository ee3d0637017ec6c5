//===- GlobalMemory.cpp - Allocations and counters ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/emulator/ptx/Machine.h"

#include <algorithm>

namespace heddle::emulator {

void GlobalMemory::add(std::string name, uint64_t address, void *host,
                       uint64_t bytes) {
  Allocation made = {address, bytes, static_cast<char *>(host),
                     std::move(name)};
  auto after = std::upper_bound(
      allocations.begin(), allocations.end(), address,
      [](uint64_t at, const Allocation &other) { return at < other.address; });
  allocations.insert(after, std::move(made));
}

const GlobalMemory::Allocation *GlobalMemory::find(uint64_t first,
                                                   uint64_t end) const {
  auto after = std::upper_bound(
      allocations.begin(), allocations.end(), first,
      [](uint64_t at, const Allocation &other) { return at < other.address; });
  if (after == allocations.begin())
    return nullptr;
  const Allocation &found = *--after;
  bool holds = end >= first && end <= found.address + found.bytes;
  return holds ? &found : nullptr;
}

std::string GlobalMemory::describe(uint64_t address) const {
  const Allocation *nearest = nullptr;
  for (const Allocation &other : allocations)
    if (other.address <= address)
      nearest = &other;
  if (!nearest)
    return "which is in no allocation";
  uint64_t offset = address - nearest->address;
  return "byte " + std::to_string(offset) + " from the start of '" +
         nearest->name + "', which has " + std::to_string(nearest->bytes);
}

const char *nameOf(Class kind) {
  static const char *const names[numClasses] = {"integer", "float",   "move",
                                                "memory",  "control", "tensor",
                                                "warp",    "async"};
  return names[static_cast<int>(kind)];
}

Counters &Counters::operator+=(const Counters &other) {
  for (int i = 0; i < numClasses; ++i)
    instructions[i] += other.instructions[i];
  tensorOperations += other.tensorOperations;
  globalRequests += other.globalRequests;
  globalSectors += other.globalSectors;
  globalBytes += other.globalBytes;
  sharedWavefronts += other.sharedWavefronts;
  idealWavefronts += other.idealWavefronts;
  return *this;
}

} // namespace heddle::emulator
