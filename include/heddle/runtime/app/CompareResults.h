//===- CompareResults.h - How far two results are apart ---------*- C++ -*-===//
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

/// Of one result.
struct Comparison {
  double error = 0; ///< The largest one; infinite where there is a NaN.
  int64_t elements = 0, compared = 0;
};

/// Compares a result, as it is in memory, with what it should be. An error is a
/// difference as a share of the element and of what its row sums: the root of
/// the mean square of the row's elements, or of all where that is more. In the
/// first rows of causal attention few values make an element, and it is as
/// large as they are; those of later rows are means of many, and small. What
/// lies between rows is left out. With `isPart` an element that is expected to
/// be NaN depends on what was not computed, and says nothing.
Comparison compareResults(const char *actual, const char *expected,
                          const plan::PlainKernel::Result &of, bool isPart);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_COMPARERESULTS_H
