//===- KernelOrder.h - Kernels that begin early -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programmatic dependent launch (CUDA Programming Guide): a kernel of a graph
// may begin when all blocks of the kernel before it have begun. Until it has
// waited for the end of the kernels before it, it may only read memory that no
// kernel writes, such as weights.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_KERNELORDER_H
#define HEDDLE_LIB_CODEGEN_GPU_KERNELORDER_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Builders.h"

namespace heddle::gpu {

/// Emits griddepcontrol.wait: waits until all kernels before this one have
/// ended, and their writes are visible. Returns at once if the kernel was
/// launched in the usual way.
void waitForKernelsBefore(mlir::OpBuilder &builder, mlir::Location loc);

/// Lets the next kernel begin as soon as all blocks of `func` have begun, and
/// makes `func` wait for the kernels before it at its begin, unless it already
/// does so elsewhere.
void beginEarly(mlir::gpu::GPUFuncOp func);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_KERNELORDER_H
