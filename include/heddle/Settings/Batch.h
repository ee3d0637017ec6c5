//===- Batch.h - Sizes of a batch -------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes of a batch that follow from others. The readers of flags and of
// ds_config.json use it, and the verifier of strategies.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_BATCH_H
#define HEDDLE_SETTINGS_BATCH_H

#include "heddle/Settings/Settings.h"
#include <functional>

namespace heddle::config {

/// micro_batch x accumulate x data: the rows of a batch. The largest integer if
/// the product overflows.
int64_t rowsOfBatch(const Settings &settings);

/// Computes the size that the user has not given, as told by `isGiven` for
/// keys, from the others: the batch, else the micro-batch, else accumulate.
/// Returns its key, or "" if all are given. If the given sizes do not divide
/// the batch, the quotient is rounded down, and `rowsOfBatch` differs from the
/// batch.
std::string completeBatch(Settings &settings,
                          const std::function<bool(const char *)> &isGiven);

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_BATCH_H
