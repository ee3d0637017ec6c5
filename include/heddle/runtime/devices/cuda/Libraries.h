//===- Libraries.h - NVIDIA's libraries on this machine ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds NVIDIA's libraries on this machine, for `BINARY info`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_LIBRARIES_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_LIBRARIES_H

#include <string>

namespace heddle::rt {

/// A library of NVIDIA that a binary loads when it starts.
struct FoundLibrary {
  std::string version; ///< As "2.18.0"; "" if it cannot be used.
  std::string path;    ///< The path at which the loader found it.
  std::string missing; ///< Why it cannot be used; "" if it can.
};

/// Finds NCCL, over which several ranks with GPUs communicate. Never throws.
FoundLibrary findNccl();
/// Finds cuBLASLt, which may compute matrix products. Never throws.
FoundLibrary findCublasLt();

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_LIBRARIES_H
