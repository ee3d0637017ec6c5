//===- HostMirror.h - Host access to a device's memory ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Access of the host to a device's memory.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_HOSTMIRROR_H
#define HEDDLE_RUNTIME_CORE_HOSTMIRROR_H

#include "heddle/runtime/core/Arena.h"
#include "heddle/runtime/core/Device.h"

#include <vector>

namespace heddle::rt {

/// Lets the host read and write a device's memory. If the host can access that
/// memory, nothing is copied. Otherwise the mirror has host pages for the
/// memory, which are allocated on first use, and `load` and `store` copy
/// between these pages and the device.
class HostMirror {
public:
  /// Mirrors memory of `device`, which must outlive the mirror.
  HostMirror(Device &device, const std::vector<Region> &memory);

  /// The host's address of these bytes. No bytes are copied, so the caller must
  /// write all of them before it reads. Throws H0412 if the bytes are outside
  /// of the memory.
  char *at(Address address, int64_t bytes) const;
  /// Waits for all work submitted to the stream Compute, copies the device's
  /// bytes to the host, and returns the host's address of them. Throws as `at`.
  char *load(Address address, int64_t bytes);
  /// Waits for all work submitted to the stream Compute, and copies the host's
  /// bytes to the device.
  void store(Address address, int64_t bytes);
  /// Says that the host no longer needs these bytes. Pages in which the host
  /// needs no other bytes may be freed.
  void release(Address address, int64_t bytes);

  /// The largest number of bytes that one call of `view` may ask for.
  static constexpr int64_t viewBytes = int64_t(2) << 20;
  /// Waits for all work submitted to the stream Compute, and returns a host
  /// address where these bytes can be read until the next call. The bytes may
  /// lie in any memory of the device, mirrored or not.
  const char *view(Address address, int64_t bytes);

private:
  struct Mirrored {
    Region region;
    char *host = nullptr;
    Arena pages; ///< Empty if the host can access the memory.
  };
  const Mirrored &find(Address address, int64_t bytes) const;
  bool copies(Address address, int64_t bytes) const {
    return find(address, bytes).pages.size() > 0;
  }
  void awaitComputation();

  Device &device;
  Event computed;
  std::vector<Mirrored> all;
  std::vector<char> viewed; ///< The copy that `view` made.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_HOSTMIRROR_H
