//===- Casts.h - Kernels that cast buffers between types --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Casts on a GPU, for collectives that send data in another type than that of
// the plan's buffers (--communication-data-type).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_CASTS_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_CASTS_H

#include "heddle/PlanFormat/Command.h"
#include "heddle/runtime/core/Device.h"
#include "heddle/runtime/devices/cuda/Driver.h"

#include <map>

namespace heddle::rt::cuda {

/// Kernels of the runtime itself, which convert elements to another type.
class Casts {
public:
  /// Loads the kernels in the current context. Throws H0436.
  explicit Casts(const Driver &driver);
  Casts(const Casts &) = delete;
  Casts &operator=(const Casts &) = delete;
  ~Casts();

  /// Whether the kernels can cast from and to `type`. They can for F32, BF16
  /// and F16.
  static bool takes(plan::DType type);
  /// Returns the PTX of the kernels, for GPUs from sm_80 on.
  static std::string text();
  /// Submits a cast of `count` elements to the stream, rounding to nearest
  /// even. Both addresses must be multiples of their type's size.
  void submit(StreamHandle stream, plan::DType to, Address target,
              plan::DType from, Address source, int64_t count) const;

private:
  /// Launches the kernel that casts `each` elements in each thread.
  void launch(StreamHandle stream, plan::DType to, Address target,
              plan::DType from, Address source, int64_t count, int each) const;

  const Driver &driver;
  Module module = nullptr;
  std::map<std::string, Function> functions;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_CASTS_H
