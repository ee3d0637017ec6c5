//===- Groups.h - Groups of ranks that serve --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the ranks that run a serving binary divide up the requests.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_GROUPS_H
#define HEDDLE_SETTINGS_GROUPS_H

#include "heddle/Settings/Settings.h"

namespace heddle::config {

/// The number of groups of ranks that generate sequences independently. The
/// ranks of a group share one copy of the weights. Without ZeRO 3 each
/// coordinate along `data` is a group. ZeRO 3 splits the weights along `data`,
/// so that all ranks are one group.
inline int64_t groupsOf(const Settings &settings) {
  return settings.zero < 3 ? settings.data : 1;
}

/// The number of sequences that one group generates at a time: --max-batch,
/// divided by the number of groups and rounded up.
inline int64_t textsOfGroup(const Settings &settings) {
  const int64_t groups = groupsOf(settings);
  return (settings.maxBatch + groups - 1) / groups;
}

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_GROUPS_H
