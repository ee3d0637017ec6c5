//===- AttentionCost.h - What attention computes ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_ATTENTIONCOST_H
#define HEDDLE_DIALECTS_NN_ATTENTIONCOST_H

#include "dialects/NN/NNDialect.h"

namespace heddle::nn {

/// The number of keys that a query sees, as the mean over all queries and, for
/// ring attention, over the steps of the ring.
double meanKeysOf(AttentionOpInterface op);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_ATTENTIONCOST_H
