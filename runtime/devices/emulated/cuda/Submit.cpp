//===- Submit.cpp - Work that other emulated libraries do -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/emulated/cuda/Submit.h"
#include "runtime/devices/emulated/cuda/Context.h"

#include <algorithm>

using namespace heddle::rt;
using namespace heddle::rt::cuda;

/// In order, without ranges that meet.
static void sortRanges(std::vector<emulator::ByteRange> &ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<emulator::ByteRange> merged;
  for (const emulator::ByteRange &range : ranges)
    if (!merged.empty() && range.first <= merged.back().end)
      merged.back().end = std::max(merged.back().end, range.end);
    else
      merged.push_back(range);
  ranges = std::move(merged);
}

Result cuda::heddleEmulateSubmit(StreamHandle handle, const char *name,
                                 EmulatedAccess *accesses, size_t count,
                                 void (*run)(void *), void (*drop)(void *),
                                 void *data) {
  auto work = [&](ContextData &context, StreamData &stream) {
    Command command;
    command.name = name;
    for (EmulatedAccess *access = accesses; access < accesses + count;
         ++access) {
      if (!context.memory.isOnGpu(access->address))
        return InvalidValue;
      access->place = context.memory.at(access->address, access->bytes);
      if (!access->place)
        return InvalidValue;
      auto &ranges =
          access->writes ? command.memory.writes : command.memory.reads;
      ranges.push_back({access->address, access->address + access->bytes});
    }
    sortRanges(command.memory.reads);
    sortRanges(command.memory.writes);
    std::shared_ptr<void> owned(data, drop);
    command.run = [owned, run](emulator::Touched &) { run(owned.get()); };
    context.submit(stream, std::move(command));
    return Success;
  };
  return inStream(handle, work, name);
}
