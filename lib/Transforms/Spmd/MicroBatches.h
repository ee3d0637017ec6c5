//===- MicroBatches.h - Splits loops over micro-batches ---------*- C++ -*-===//
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

/// Splits a loop over micro-batches in two. A new loop before `loop` runs the
/// first `count` micro-batches, and `loop` runs the others. `count` must be
/// less than the number of all micro-batches. Returns the new loop.
nn::MicroBatchesOp splitFirst(nn::MicroBatchesOp loop, int64_t count);

/// Whether `--dump` keeps values of micro-batches. These values are written to
/// one buffer with an entry for each iteration of the loop. Such a loop must
/// not be split.
bool keepsValues(nn::StepOp step);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_MICROBATCHES_H
