//===- DrawOperand.h - Random operands to check kernels ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random operands for `BINARY check`, which compares the results of optimized
// kernels with those of unoptimized kernels for the same operations.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_DRAWOPERAND_H
#define HEDDLE_RUNTIME_CORE_DRAWOPERAND_H

#include "heddle/PlanFormat/PtxImage.h"

namespace heddle::rt {

/// The elements of a random operand repeat after this number of elements. It is
/// a prime, so that the rows of a matrix differ.
constexpr int64_t drawnPeriod = 1048573;

/// Writes the first `count` elements of the kernel's argument with index
/// `number` to `to`. They are reproducible random numbers from the argument's
/// `low` to its `high`.
void drawOperand(const plan::PlainKernel::Argument &argument, uint32_t number,
                 char *to, int64_t count);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_DRAWOPERAND_H
