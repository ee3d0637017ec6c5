//===- ResidentMemory.cpp - Memory with physical pages --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ResidentMemory.h"
#include "heddle/PlanFormat/MemoryHelp.h"

#include <algorithm>
#include <map>
#include <set>
#include <sys/mman.h>

using namespace heddle;
using namespace heddle::rt;

int64_t heddle::rt::residentBytes(const char *begin, int64_t bytes) {
  if (bytes == 0)
    return 0;
  auto first = reinterpret_cast<uintptr_t>(begin);
  uintptr_t end = first + uintptr_t(bytes);
  auto page = uintptr_t(Arena::pageSize());
  uintptr_t start = first / page * page;
  std::vector<unsigned char> pages((end - start + page - 1) / page);
  if (mincore(reinterpret_cast<void *>(start), end - start, pages.data()) != 0)
    return 0;
  int64_t resident = 0;
  for (size_t i = 0; i < pages.size(); ++i)
    if (pages[i] & 1)
      resident += int64_t(std::min(end, start + (i + 1) * page) -
                          std::max(first, start + i * page));
  return resident;
}

/// Memory that the host cannot map is a GPU's, which is always resident, or a
/// file's.
static int64_t residentIn(Device &device, Address address, int64_t bytes,
                          plan::MemoryKind memory) {
  if (memory == plan::MemoryKind::File)
    return 0;
  const char *mapped = device.map(address);
  return mapped ? residentBytes(mapped, bytes) : bytes;
}

std::vector<OwnedMemory> heddle::rt::ownedMemory(const Session &session) {
  const plan::Plan &plan = session.plan();
  Device &device = session.runsOn();
  std::map<std::string, int64_t> resident;
  std::set<uintptr_t> counted; // States of a ZeRO bucket share its shard.
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const plan::State &state = plan.states[i];
    const Value &value = session.state(i);
    if (!counted.insert(value.address.value()).second)
      continue;
    resident[plan::stateOwner(state.role, !state.parameter.empty(),
                              state.memory)] +=
        residentIn(device, value.address, value.numBytes(), state.memory);
  }
  std::vector<OwnedMemory> all;
  for (const plan::Owner &owner : plan.memory.owners) {
    auto found = resident.find(owner.name);
    all.push_back({owner.name, owner.bytes,
                   found == resident.end() ? -1 : found->second});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const OwnedMemory &a, const OwnedMemory &b) {
                     return a.planned > b.planned;
                   });
  OwnedMemory arena{"the arena, which values that are not states share", 0, 0};
  for (plan::MemoryKind kind : plan::memoryKinds) {
    const Region &region = session.arenaRegions()[kind];
    arena.planned += region.bytes;
    arena.resident += residentIn(device, region.begin, region.bytes, kind);
  }
  all.push_back(arena);
  return all;
}
