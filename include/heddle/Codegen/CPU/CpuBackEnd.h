//===- CpuBackEnd.h - The back end for x86-64 -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_CPU_CPUBACKEND_H
#define HEDDLE_CODEGEN_CPU_CPUBACKEND_H

#include "heddle/Codegen/CPU/CpuTarget.h"
#include "heddle/Codegen/Common/Target.h"

namespace heddle::cpu {

/// Creates the back end for x86-64.
std::unique_ptr<codegen::Target> createBackEnd();

/// The CPU with the name `march`. If `march` is empty, the strategy of `root`
/// (the settings with which this model or plan is compiled) names the CPU.
/// Reports H0114 if the name is unknown.
mlir::FailureOr<CpuTarget> machineOf(mlir::Operation *root,
                                     llvm::StringRef march = "");

/// Whether the CPU back end compiles the kernel. In plans for GPUs these are
/// the kernels that run on the host.
bool runsKernel(planir::KernelOp kernel);

} // namespace heddle::cpu

#endif // HEDDLE_CODEGEN_CPU_CPUBACKEND_H
