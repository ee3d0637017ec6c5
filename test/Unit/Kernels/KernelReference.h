//===- KernelReference.h - What a kernel should compute ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_KERNELS_KERNELREFERENCE_H
#define HEDDLE_TEST_UNIT_KERNELS_KERNELREFERENCE_H

#include "../Support/IsLong.h"
#include "dialects/Plan/PlanDialect.h"
#include "heddle/Eval/Tensor.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <memory>
#include <string>
#include <vector>

namespace heddle::test {

/// A context with what is in `registry` and the reference evaluations.
std::unique_ptr<mlir::MLIRContext>
createKernelContext(const mlir::DialectRegistry &registry);

/// `text` with every $NAME replaced.
std::string instantiate(
    std::string text,
    const std::vector<std::pair<std::string, std::string>> &replacements);

/// Runs the kernel in `text` in every way that the test program knows, on
/// random tensors, and compares every result with the reference evaluation in
/// double precision. `tolerance` is relative to the size of the results.
/// Integers are drawn from [least, limit). Arguments with the attribute
/// test.positive are positive, those with test.integral integers, and those
/// with test.bits words of 32 bits, of which this share is set. With
/// `forward`, a kernel in text, `text` is its gradient, whose arguments are the
/// gradient of the first result, the results and then the arguments of that
/// kernel.
struct KernelCheck {
  std::string text;
  double tolerance = 2e-6;
  int64_t least = 0, limit = 4;
  std::vector<int64_t> scalars = {};
  std::string forward = {};
  /// Targets; "amx" and "amx-fp16" are this machine with emulated tiles, or
  /// left out.
  std::vector<std::string> marches = {"native", "x86-64-v3"};
  void run() const;
};

/// The element types of case `number` of the tests of `text`: f32, bf16 and f16
/// with HEDDLE_TEST_LONG=1, else one of them, which changes from case to case.
std::vector<const char *> typesOf(const std::string &text, size_t number);

/// Runs the body by reference, each value rounded to its type, or none.
std::vector<eval::Tensor> evaluate(planir::KernelOp kernel,
                                   llvm::ArrayRef<eval::Tensor> arguments,
                                   bool isRounded = true);

/// The random arguments of a check.
std::vector<eval::Tensor> randomArguments(planir::KernelOp kernel,
                                          const KernelCheck &check);

/// Runs a compiled kernel on buffers: tensor arguments, then results that are
/// not tied.
using RunKernel = llvm::function_ref<void(const std::vector<void *> &refs)>;

/// Results as the kernel writes them, tied ones over their arguments.
std::vector<eval::Tensor> execute(planir::KernelOp kernel,
                                  llvm::ArrayRef<eval::Tensor> arguments,
                                  RunKernel run);

/// Expects equal integers, and floats within the tolerance.
void expectNear(const eval::Tensor &actual, const eval::Tensor &expected,
                double tolerance, const std::string &what);

/// Expects equal elements.
void expectSameBits(const eval::Tensor &actual, const eval::Tensor &expected,
                    const std::string &what);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_KERNELS_KERNELREFERENCE_H
