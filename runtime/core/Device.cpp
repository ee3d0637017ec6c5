//===- Device.cpp - A plan's memory on a device ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Device.h"

using namespace heddle;
using namespace heddle::rt;

PlanMemory::PlanMemory(Device &device, const plan::PerMemory<int64_t> &bytes,
                       const std::string &owner, bool guarded,
                       const plan::PerFile<int64_t> &files,
                       std::function<std::string(int64_t offset)> nameAt) {
  for (MemoryKind kind : plan::memoryKinds) {
    std::optional<DeviceMemory> &memory = owned[size_t(kind)];
    memory.emplace(device, MemoryRequest{kind, bytes[kind], owner, guarded,
                                         files, nameAt});
    all[kind] = memory->region();
  }
}

int64_t PlanMemory::bytes() const {
  int64_t bytes = 0;
  for (const Region &region : all.values)
    bytes += region.bytes;
  return bytes;
}
