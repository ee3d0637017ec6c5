//===- SourceLines.h - Source lines of instructions -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Equal layers share one kernel, so the text of a kernel cannot name a layer.
// Its `.loc` lines therefore refer to operations of the kernel's body. Which
// layer runs is known from the launch.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_SOURCELINES_H
#define HEDDLE_LIB_CODEGEN_GPU_SOURCELINES_H

#include "heddle/Codegen/GPU/Kernels.h"

namespace heddle::gpu {

/// Gives each operation of the body a location: its name as the file, its
/// number from 1 as the line. The kernel's own location is that of the
/// operation that its generator implements.
void numberOperations(planir::KernelOp kernel);

/// Emits files and lines of numbered kernels to PTX (`.file`, `.loc`), without
/// other debug information. The code does not change.
void addSourceLines(mlir::gpu::GPUModuleOp module);

/// Removes source lines from PTX. ptxas would copy them into the cubin.
std::string withoutSourceLines(llvm::StringRef ptx);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_SOURCELINES_H
