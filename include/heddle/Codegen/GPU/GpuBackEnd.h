//===- GpuBackEnd.h - NVIDIA GPUs as targets --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_GPU_GPUBACKEND_H
#define HEDDLE_CODEGEN_GPU_GPUBACKEND_H

#include "heddle/Codegen/Common/Target.h"

namespace heddle::gpu {

/// Creates the back end for one chip (SM_80 or SM_90).
std::unique_ptr<codegen::Target> createBackEnd(config::Target chip);

} // namespace heddle::gpu

#endif // HEDDLE_CODEGEN_GPU_GPUBACKEND_H
