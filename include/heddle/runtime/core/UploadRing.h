//===- UploadRing.h - Uploads through two pinned buffers --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Uploads large data to a device through two small pinned buffers.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_UPLOADRING_H
#define HEDDLE_RUNTIME_CORE_UPLOADRING_H

#include "heddle/runtime/core/Device.h"

#include <array>
#include <optional>

namespace heddle::rt {

/// Copies large data, in pieces, to memory that the host cannot access. There
/// are two slots of pinned memory: the host fills one while the device copies
/// the other.
class UploadRing {
public:
  /// The usual maximum size of one of the two buffers.
  static constexpr int64_t mostBytes = int64_t(16) << 20;

  /// Makes a ring of two slots of pinned memory. A slot has `bytes` bytes,
  /// rounded up to pages, but at most `mostBytes`, or `least` bytes if that is
  /// more. The slots are allocated at first use. `device` must outlive the
  /// ring.
  UploadRing(Device &device, int64_t bytes, int64_t least = 0);

  /// The bytes of a slot.
  int64_t slotBytes() const { return bytes; }
  /// Waits until the contents of the next slot (a pinned buffer) have been
  /// copied to the device, and returns the slot to be filled. Throws H0292 if
  /// there is too little memory.
  char *next();
  /// Submits a copy of bytes to `target`. These are the first `count` bytes of
  /// the slot that the last call of `next` returned. The copy runs after all
  /// work submitted to the stream Compute.
  void send(Address target, int64_t count);
  /// Waits until all submitted copies are done.
  void finish();

private:
  struct Slot {
    std::optional<DeviceMemory> memory;
    Event computed, copied;
  };

  Device &device;
  int64_t bytes;
  std::array<Slot, 2> slots;
  size_t turn = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_UPLOADRING_H
