//===- Errors.h - Errors of GPU kernels beside those of x86 -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_GPU_ERRORS_H
#define HEDDLE_TEST_UNIT_GPU_ERRORS_H

#include "../Kernels/KernelReference.h"
#include "heddle/Settings/Settings.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle::test {

/// What a kernel gives on the CPU, and in the emulator, on the same numbers.
class Executions {
public:
  /// `check` must live as long.
  explicit Executions(const KernelCheck &check);

  /// In double precision throughout.
  std::vector<eval::Tensor> reference();
  std::vector<eval::Tensor> onCpu();
  std::vector<eval::Tensor> onGpu(const char *chip,
                                  config::Matmul matmul = config::Matmul::Ieee);

private:
  const KernelCheck &check;
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  planir::KernelOp kernel;
  std::vector<eval::Tensor> arguments;
};

/// The norm of actual - exact over the norm of exact.
double errorOf(const eval::Tensor &actual, const eval::Tensor &exact);

/// Expects that sm_80 and sm_90 err half as much again as the CPU at most, in
/// each result. In f32 the norm of errors may be `units` * 2^-24 of the
/// result's whatever the CPU does. Where the CPU has no such kernel, `forCpu`
/// takes the same arguments and makes the first results.
void compareErrors(const KernelCheck &check, double units = 4,
                   const KernelCheck *forCpu = nullptr);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_GPU_ERRORS_H
