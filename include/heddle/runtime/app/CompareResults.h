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

/// Compares a kernel's result with a reference. The error of an element is its
/// difference from the reference, divided by the sum of two magnitudes: that of
/// the element, and the root mean square of its row. If the root mean square of
/// the whole tensor is larger than that of the row, it is used instead, so that
/// rows of small elements do not inflate errors. (In causal attention, the
/// first rows average few values and are large; later rows average many and are
/// small.) Padding between rows is ignored. If `isPart`, the reference kernel
/// has computed only some elements. The others are NaN in the reference, and
/// are not compared.
Comparison compareResults(const char *actual, const char *expected,
                          const plan::PlainKernel::Result &of, bool isPart);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_COMPARERESULTS_H
