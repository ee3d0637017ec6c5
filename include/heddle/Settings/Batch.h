//===- Batch.h - Sizes of a batch -------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes sizes of a batch (batch, micro-batch, accumulation) from each other,
// for the readers of flags and of ds_config.json, and for the verifier of a
// compilation's settings.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_BATCH_H
#define HEDDLE_SETTINGS_BATCH_H

#include "heddle/Settings/Settings.h"
#include <functional>

namespace heddle::config {

/// The rows of a batch: micro-batch size x accumulation steps x ranks along
/// `data`. The largest integer if the product overflows.
int64_t rowsOfBatch(const Settings &settings);

/// Computes the first of these sizes that the user has not given: the batch
/// size, the micro-batch size, and the number of accumulation steps. The size
/// is computed from the other sizes. `isGiven` says which keys the user has
/// given. Returns the key of the computed size, or "" if all are given. If the
/// given sizes do not divide the batch size, the quotient is rounded down, and
/// `rowsOfBatch` then differs from the batch size.
std::string completeBatch(Settings &settings,
                          const std::function<bool(const char *)> &isGiven);

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_BATCH_H
