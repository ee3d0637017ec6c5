//===- DrawOperand.h - Operands to check kernels ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operands for `BINARY check`, which compares the results of optimized
// kernels with those of unoptimized kernels for the same operations.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_DRAWOPERAND_H
#define HEDDLE_RUNTIME_CORE_DRAWOPERAND_H

#include "heddle/PlanFormat/PtxImage.h"

#include <map>

namespace heddle::rt {

/// The elements of a random operand repeat after this number of elements. It is
/// a prime, so that the rows of a matrix differ.
constexpr int64_t drawnPeriod = 1048573;

/// Writes the first `count` elements of the kernel's argument with index
/// `number` to `to`. They are reproducible random numbers from the argument's
/// `low` to its `high`.
void drawOperand(const plan::PlainKernel::Argument &argument, uint32_t number,
                 char *to, int64_t count);

/// Constants among the operands of a kernel, by the operand's index. Scalars
/// have no index.
using KernelConstants = std::map<size_t, const plan::State *>;

/// Writes the elements of a kernel's tensors, one after the other: those of the
/// plan where the operand is a constant, such as a layout of attention, else
/// random numbers.
class OperandWriter {
public:
  explicit OperandWriter(const KernelConstants &constants)
      : constants(constants) {}

  /// Writes the first `count` elements of the next tensor to `to`. `number` is
  /// the argument's, as in `drawOperand`.
  void write(const plan::PlainKernel::Argument &argument, uint32_t number,
             char *to, int64_t count);

private:
  const KernelConstants &constants;
  size_t next = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_DRAWOPERAND_H
