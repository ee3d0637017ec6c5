//===- MicroBatches.h - Some micro-batches in a loop of their own -*- C++ -*-=//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_MICROBATCHES_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_MICROBATCHES_H

#include "dialects/NN/NNDialect.h"

namespace heddle::spmd {

/// Gives the first `count` micro-batches of a loop, which are not all, a loop
/// of their own before it. Returns that.
nn::MicroBatchesOp splitFirst(nn::MicroBatchesOp loop, int64_t count);

/// Whether values of micro-batches are kept for `--dump`: each has a place in
/// one loop, which is not split then.
bool keepsValues(nn::StepOp step);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_MICROBATCHES_H
