//===- Libraries.h - Libraries for GPUs that are here -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_LIBRARIES_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_LIBRARIES_H

#include <string>

namespace heddle::rt {

/// A library of NVIDIA's that a binary looks for when it starts.
struct FoundLibrary {
  std::string version; ///< As "2.18.0"; empty: it cannot be used.
  std::string path;    ///< As the loader found it.
  std::string missing; ///< Why it cannot be used; empty: it can.
};

/// What several ranks with GPUs talk through; never throws.
FoundLibrary findNccl();
/// What may compute matrix products; never throws.
FoundLibrary findCublasLt();

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_LIBRARIES_H
