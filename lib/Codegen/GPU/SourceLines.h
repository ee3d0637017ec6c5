//===- SourceLines.h - Source lines of instructions -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Source lines of kernels for profilers. Equal layers share one kernel, so that
// the code of a kernel cannot name a layer. Its `.loc` lines therefore refer to
// operations of the kernel's body. The profiler shows the layer at the kernel's
// launch.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_SOURCELINES_H
#define HEDDLE_LIB_CODEGEN_GPU_SOURCELINES_H

#include "heddle/Codegen/GPU/Kernels.h"

namespace heddle::gpu {

/// Gives each operation of the kernel's body a location: the operation's name
/// as the file, and its index in the body, from 1 on, as the line. The kernel
/// itself gets the location of the operation that its generator implements.
void numberOperations(planir::KernelOp kernel);

/// Makes the module's PTX contain `.file` and `.loc` lines for the locations
/// that `numberOperations` has set. The PTX gets no other debug information,
/// and its instructions do not change.
void addSourceLines(mlir::gpu::GPUModuleOp module);

/// Removes source lines from PTX. ptxas would copy them into the cubin.
std::string withoutSourceLines(llvm::StringRef ptx);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_SOURCELINES_H
