//===- HostMirror.h - Device memory as the host has it ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_HOSTMIRROR_H
#define HEDDLE_RUNTIME_CORE_HOSTMIRROR_H

#include "heddle/runtime/core/Arena.h"
#include "heddle/runtime/core/Device.h"

#include <vector>

namespace heddle::rt {

/// The bytes of a device's memory for the host to read and write. Where the
/// host sees that memory they are the memory itself, and nothing is copied.
/// Elsewhere they are pages of the host, in the same order, which exist only
/// where they were used: `load` and `store` copy between both.
class HostMirror {
public:
  /// Mirrors memory of `device`, which must outlive it.
  HostMirror(Device &device, const std::vector<Region> &memory);

  /// Where these bytes stand, for what the host writes all of; nothing is
  /// copied. Throws H0412 when they are not in the memory.
  char *at(Address address, int64_t bytes) const;
  /// The same, after the bytes have come from the device, as all that was
  /// submitted for computation leaves them.
  char *load(Address address, int64_t bytes);
  /// Brings the bytes to the device, once all that was submitted for
  /// computation is done.
  void store(Address address, int64_t bytes);
  /// The bytes are not needed any more: pages may go that hold nothing else.
  void release(Address address, int64_t bytes);

  /// So many bytes may be viewed at once.
  static constexpr int64_t viewBytes = int64_t(2) << 20;
  /// Bytes of the device's memory of whatever kind, mirrored or not, to be read
  /// until the next call, as all that was submitted for computation leaves
  /// them.
  const char *view(Address address, int64_t bytes);

private:
  struct Mirrored {
    Region region;
    char *host = nullptr;
    Arena pages; ///< Empty where the host sees the memory.
  };
  const Mirrored &find(Address address, int64_t bytes) const;
  bool copies(Address address, int64_t bytes) const {
    return find(address, bytes).pages.size() > 0;
  }
  void awaitComputation();

  Device &device;
  Event computed;
  std::vector<Mirrored> all;
  std::vector<char> viewed; ///< What `view` copied.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_HOSTMIRROR_H
