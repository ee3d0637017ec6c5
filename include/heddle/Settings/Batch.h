//===- Batch.h - The sizes of a batch ---------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_BATCH_H
#define HEDDLE_SETTINGS_BATCH_H

#include "heddle/Settings/Settings.h"
#include <functional>

namespace heddle::config {

/// The rows of micro_batch x accumulate x data; as many as can be where that
/// overflows.
int64_t rowsOfBatch(const Settings &settings);

/// Gives the size of a batch that follows from the others where `isGiven` is
/// false of its key: the batch, else the micro-batch, else accumulate. Returns
/// its key, or "" where all are given. Where others do not divide the batch it
/// is rounded down, and the batch is not `rowsOfBatch`.
std::string completeBatch(Settings &settings,
                          const std::function<bool(const char *)> &isGiven);

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_BATCH_H
