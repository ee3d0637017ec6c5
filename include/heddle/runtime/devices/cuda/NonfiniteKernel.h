//===- NonfiniteKernel.h - Find infinite and NaN numbers --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds gradients that overflowed, on a GPU, before the next step overwrites
// them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_NONFINITEKERNEL_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_NONFINITEKERNEL_H

#include "heddle/runtime/core/Device.h"
#include "heddle/runtime/devices/cuda/Driver.h"

#include <optional>

namespace heddle::rt::cuda {

/// A kernel of the runtime itself, with the table of its ranges on the GPU.
class NonfiniteKernel : public NonfiniteSearch {
public:
  /// Loads the kernel in the current context, and copies the table. `stream` is
  /// that of Stream::Compute. Throws H0436, or H0292 if there is too little
  /// memory.
  NonfiniteKernel(const Driver &driver, Device &device, StreamHandle stream,
                  const std::vector<NumberRange> &ranges);
  NonfiniteKernel(const NonfiniteKernel &) = delete;
  NonfiniteKernel &operator=(const NonfiniteKernel &) = delete;
  ~NonfiniteKernel() override;

  /// Returns the PTX of the kernel, for GPUs from sm_80 on.
  static std::string text();

  void submit(Address condition) override;
  Address result() const override { return memory->address(); }

private:
  const Driver &driver;
  Device &device;
  StreamHandle compute;
  Module module = nullptr;
  Function function = nullptr;
  uint32_t numRanges;
  /// The result, and after it the table.
  std::optional<DeviceMemory> memory;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_NONFINITEKERNEL_H
