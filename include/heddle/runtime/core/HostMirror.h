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

  /// The host's address of these bytes, for a caller that writes all of them;
  /// nothing is copied. Throws H0412 when they are outside of the memory.
  char *at(Address address, int64_t bytes) const;
  /// Like `at`, but first copies the device's bytes to the host, after all work
  /// submitted to Compute.
  char *load(Address address, int64_t bytes);
  /// Copies the bytes to the device, after all work submitted to Compute.
  void store(Address address, int64_t bytes);
  /// Says that the host needs these bytes no longer: pages that hold nothing
  /// else may be freed.
  void release(Address address, int64_t bytes);

  /// The most bytes of one `view`.
  static constexpr int64_t viewBytes = int64_t(2) << 20;
  /// Bytes of any memory of the device for reading, valid until the next call,
  /// after all work submitted to Compute. The memory need not be mirrored.
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
