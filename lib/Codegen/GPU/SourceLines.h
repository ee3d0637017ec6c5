//===- SourceLines.h - Where instructions come from -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel is one for all equal layers, so its text cannot say which layer it
// is of: its instructions lead to operations of its body. The launch knows the
// module.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_SOURCELINES_H
#define HEDDLE_LIB_CODEGEN_GPU_SOURCELINES_H

#include "heddle/Codegen/GPU/Kernels.h"

namespace heddle::gpu {

/// Gives each operation of the body its name for a file and its number, from 1,
/// for a line. The kernel itself has those of the operation that its generator
/// is for.
void numberOperations(planir::KernelOp kernel);

/// Lets instructions of numbered kernels keep their files and lines in PTX
/// (`.file`, `.loc`), and nothing else of debug information: code is the same
/// without.
void addSourceLines(mlir::gpu::GPUModuleOp module);

/// The text for ptxas, which would put all of it into a cubin that has lines.
std::string withoutSourceLines(llvm::StringRef ptx);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_SOURCELINES_H
