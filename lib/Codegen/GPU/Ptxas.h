//===- Ptxas.h - Whether a ptxas can be used --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_GPU_PTXAS_H
#define HEDDLE_CODEGEN_GPU_PTXAS_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace heddle::gpu {

/// The PTX version of CUDA 12.0, times ten: every driver that Heddle takes
/// (H0281) reads it.
constexpr int ptxVersion = 80;

/// Why the ptxas at `path` assembles not even an empty kernel for `chip`: it is
/// too old, say, or does not start. Empty when it does.
std::string whyPtxasFails(llvm::StringRef path, llvm::StringRef chip);

} // namespace heddle::gpu

#endif // HEDDLE_CODEGEN_GPU_PTXAS_H
