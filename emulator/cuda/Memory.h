//===- Memory.h - Memory of an emulated GPU ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Allocates the memory of the emulated GPU, and pinned host memory.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_MEMORY_H
#define HEDDLE_EMULATOR_CUDA_MEMORY_H

#include "emulator/cuda/Settings.h"
#include "heddle/runtime/devices/cuda/CudaApi.h"

#include <map>

namespace heddle::rt::cuda {

/// The allocations of cuMemAlloc and cuMemHostAlloc. A program that
/// dereferences an address of GPU memory crashes, because the address is not
/// accessible. The bytes are in another mapping, which the emulator uses. New
/// memory is filled with NaN.
class Memory {
public:
  explicit Memory(const Settings &settings) : settings(settings) {}
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  ~Memory();

  /// Allocates memory and returns its address, or 0 if there is not enough
  /// memory.
  DevicePointer allocate(size_t bytes, bool onHost);
  /// Frees an allocation. Returns false if no allocation of that kind begins at
  /// `address`.
  bool release(DevicePointer address, bool onHost);

  /// Returns a pointer to the bytes of a range, or null if the range is not
  /// inside one allocation.
  char *at(DevicePointer address, size_t bytes) const;
  /// Whether `address` is in GPU memory.
  bool isOnGpu(DevicePointer address) const;
  /// Whether `address` is in any allocation.
  bool isKnown(DevicePointer address) const { return find(address); }

  size_t total() const;
  size_t free() const;
  /// The number of bytes of GPU memory that are allocated.
  size_t usedBytes() const { return used; }
  /// The allocations, in the form that the PTX interpreter uses.
  const emulator::GlobalMemory &global() const { return known; }

private:
  struct Mapping {
    char *start = nullptr;
    size_t bytes = 0;
  };
  struct Allocation {
    size_t bytes = 0;
    bool onHost = false;
    /// The bytes of the allocation, at an address that the host can access.
    char *contents = nullptr;
    Mapping data, reserved;
    std::string name;
  };
  /// The allocation that contains the address, or null.
  const std::pair<const DevicePointer, Allocation> *
  find(DevicePointer address) const;
  static Mapping map(size_t bytes, int protection);
  static void unmap(const Allocation &allocation);
  void tellMachine();

  const Settings &settings;
  std::map<DevicePointer, Allocation> all;
  emulator::GlobalMemory known;
  size_t used = 0;
  int64_t made = 0;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_MEMORY_H
