//===- Ptxas.h - Checks whether a ptxas is usable ---------------*- C++ -*-===//
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

/// The PTX version of CUDA 12.0, times ten. Every supported driver (H0281)
/// reads it.
constexpr int ptxVersion = 80;

/// Returns the reason why the ptxas at `path` cannot assemble an empty kernel
/// for `chip`, for example because it is too old or does not start. Returns ""
/// if it can.
std::string whyPtxasFails(llvm::StringRef path, llvm::StringRef chip);

} // namespace heddle::gpu

#endif // HEDDLE_CODEGEN_GPU_PTXAS_H
