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

/// Compares a kernel's result with a reference. The error of an element is the
/// difference, divided by the sum of the element's magnitude and the root mean
/// square of its row. The root mean square of the whole tensor is used instead
/// if it is larger, so that rows of small elements do not inflate errors. (In
/// causal attention, the first rows average few values and are large; later
/// rows average many and are small.) Padding between rows is ignored. If
/// `isPart`, the reference was not computed everywhere. Its other elements are
/// NaN and are ignored.
Comparison compareResults(const char *actual, const char *expected,
                          const plan::PlainKernel::Result &of, bool isPart);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_COMPARERESULTS_H
