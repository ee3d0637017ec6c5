//===- Casts.h - Numbers in another type, on a GPU --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_CASTS_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_CASTS_H

#include "heddle/PlanFormat/Command.h"
#include "heddle/runtime/core/Device.h"
#include "heddle/runtime/devices/cuda/Driver.h"

#include <map>

namespace heddle::rt::cuda {

/// Kernels of the runtime's own that write numbers in another type: what ranks
/// send need not have the type of the plan's buffers.
class Casts {
public:
  /// Loads them in the current context. Throws H0436.
  explicit Casts(const Driver &driver);
  Casts(const Casts &) = delete;
  Casts &operator=(const Casts &) = delete;
  ~Casts();

  /// Whether it casts from and to that type: F32, BF16 and F16.
  static bool takes(plan::DType type);
  /// Their PTX, for any GPU from sm_80 on.
  static std::string text();
  /// Gives the stream a cast of `count` numbers, each rounded to the nearest,
  /// a tie to even. Both places are multiples of their type's size.
  void submit(StreamHandle stream, plan::DType to, Address target,
              plan::DType from, Address source, int64_t count) const;

private:
  /// Takes so many numbers a thread.
  void launch(StreamHandle stream, plan::DType to, Address target,
              plan::DType from, Address source, int64_t count, int each) const;

  const Driver &driver;
  Module module = nullptr;
  std::map<std::string, Function> functions;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_CASTS_H
