//===- CompareResults.h - Compare a result with a reference -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_COMPARERESULTS_H
#define HEDDLE_RUNTIME_APP_COMPARERESULTS_H

#include "heddle/PlanFormat/PtxImage.h"

namespace heddle::rt {

/// How far a kernel's result differs from its reference.
struct Comparison {
  double error = 0; ///< Largest relative error; infinite if a NaN differs.
  int64_t elements = 0, compared = 0;
};

/// Compares a result in memory with a reference. An error is a difference
/// relative to the size of the element plus the size of its row: the root mean
/// square of the row, or of the whole tensor if that is larger. (In causal
/// attention, elements of the first rows combine few values and are large;
/// those of later rows are means of many and small.) Padding between rows is
/// ignored. If `isPart`, the reference was only computed in part, and is NaN
/// elsewhere. Those elements are ignored.
Comparison compareResults(const char *actual, const char *expected,
                          const plan::PlainKernel::Result &of, bool isPart);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_COMPARERESULTS_H
