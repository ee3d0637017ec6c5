//===- CpuBackEnd.h - x86-64 as a target ------------------------*- C++ -*-===//
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

/// The back end for x86-64.
std::unique_ptr<codegen::Target> createBackEnd();

/// The processor that a model's or plan's strategy names, or that `march` names
/// where that is given. Reports H0114 when there is none of that name.
mlir::FailureOr<CpuTarget> machineOf(mlir::Operation *root,
                                     llvm::StringRef march = "");

/// Whether the kernel is one that a CPU runs: in plans for GPUs those on the
/// host.
bool runsKernel(planir::KernelOp kernel);

} // namespace heddle::cpu

#endif // HEDDLE_CODEGEN_CPU_CPUBACKEND_H
