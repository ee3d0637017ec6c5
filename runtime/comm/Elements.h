//===- Elements.h - Convert and add elements --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_ELEMENTS_H
#define HEDDLE_RUNTIME_COMM_ELEMENTS_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::rt {

/// Copies elements and converts them between F32, BF16 and F16. If `from` and
/// `to` are the same type, that may be any type, and the buffers may be the
/// same.
void convertElements(plan::DType from, const void *source, plan::DType to,
                     void *destination, int64_t count);

/// Computes sum[i] += values[i] in fp32.
void addElements(float *sum, plan::DType type, const void *values,
                 int64_t count);

/// Rounds each value to type `to`.
void roundElements(float *values, plan::DType to, int64_t count);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_ELEMENTS_H
