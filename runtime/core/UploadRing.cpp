//===- UploadRing.cpp - Uploads through two pinned buffers ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/UploadRing.h"

#include <algorithm>

using namespace heddle::rt;

UploadRing::UploadRing(Device &device, int64_t wanted, int64_t least)
    : device(device) {
  constexpr int64_t page = 4096;
  const int64_t atLeast =
      std::max<int64_t>({std::min(wanted, mostBytes), least, 1});
  bytes = (atLeast + page - 1) / page * page;
}

char *UploadRing::next() {
  turn = (turn + 1) % slots.size();
  Slot &slot = slots[turn];
  if (slot.memory) {
    device.await(slot.copied);
  } else {
    slot.memory.emplace(device, MemoryRequest{MemoryKind::Pinned, bytes,
                                              "weights on their way"});
    slot.computed = device.makeEvent();
    slot.copied = device.makeEvent();
  }
  return device.map(slot.memory->address());
}

void UploadRing::send(Address target, int64_t count) {
  Slot &slot = slots[turn];
  device.record(Stream::Compute, slot.computed);
  device.wait(Stream::Communication, slot.computed);
  device.copyIn(Stream::Communication, target,
                device.map(slot.memory->address()), count);
  device.record(Stream::Communication, slot.copied);
}

void UploadRing::finish() { device.synchronize(Stream::Communication); }
