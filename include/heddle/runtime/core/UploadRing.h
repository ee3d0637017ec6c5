//===- UploadRing.h - Bytes on their way to a device ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_UPLOADRING_H
#define HEDDLE_RUNTIME_CORE_UPLOADRING_H

#include "heddle/runtime/core/Device.h"

#include <array>
#include <optional>

namespace heddle::rt {

/// Brings much to memory that the host does not see, through little of its own:
/// the host fills one of two slots of pinned memory while the other one is
/// copied.
class UploadRing {
public:
  /// Of a slot, unless less will do.
  static constexpr int64_t mostBytes = int64_t(4) << 20;

  /// Slots for at most `bytes` at once. `device` must outlive the ring; memory
  /// is allocated when it is first needed.
  UploadRing(Device &device, int64_t bytes);

  /// The bytes of a slot.
  int64_t slotBytes() const { return bytes; }
  /// A slot to fill, once what was last sent from it has been copied. Throws
  /// H0292 when there is no memory.
  char *next();
  /// Copies the first `count` bytes of the slot that `next` gave to `target`,
  /// after all that was submitted for computation.
  void send(Address target, int64_t count);
  /// Returns when all that was sent is there.
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
