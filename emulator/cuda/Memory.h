//===- Memory.h - Memory of an emulated GPU ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_MEMORY_H
#define HEDDLE_EMULATOR_CUDA_MEMORY_H

#include "emulator/cuda/Settings.h"
#include "heddle/runtime/devices/cuda/CudaApi.h"

#include <map>

namespace heddle::rt::cuda {

/// What cuMemAlloc and cuMemHostAlloc have handed out. Memory of the GPU has
/// addresses at which the host faults; its bytes stand elsewhere. Fresh memory
/// holds NaN.
class Memory {
public:
  explicit Memory(const Settings &settings) : settings(settings) {}
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  ~Memory();

  /// An address; 0 when there is not so much.
  DevicePointer allocate(size_t bytes, bool onHost);
  /// False when nothing of that kind begins there.
  bool release(DevicePointer address, bool onHost);

  /// Where these bytes stand; null when they are not of one allocation.
  char *at(DevicePointer address, size_t bytes) const;
  /// Whether it is an address of the GPU's memory.
  bool isOnGpu(DevicePointer address) const;
  /// Whether it is an address of memory that was handed out.
  bool isKnown(DevicePointer address) const { return find(address); }

  size_t total() const;
  size_t free() const;
  /// Of the GPU's.
  size_t usedBytes() const { return used; }
  /// As the machine that runs kernels sees it.
  const emulator::GlobalMemory &global() const { return known; }

private:
  struct Mapping {
    char *start = nullptr;
    size_t bytes = 0;
  };
  struct Allocation {
    size_t bytes = 0;
    bool onHost = false;
    char *place = nullptr; ///< Where the bytes stand.
    Mapping data, reserved;
    std::string name;
  };
  /// The allocation with this byte, or null.
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
