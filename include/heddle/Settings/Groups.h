//===- Groups.h - Groups of ranks that serve --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a serving binary's ranks divide up requests.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_GROUPS_H
#define HEDDLE_SETTINGS_GROUPS_H

#include "heddle/Settings/Settings.h"

namespace heddle::config {

/// The number of groups of ranks that generate sequences on their own. The
/// ranks of a group share one copy of the weights: without ZeRO 3, which splits
/// weights along `data`, each coordinate along `data` is a group.
inline int64_t groupsOf(const Settings &settings) {
  return settings.zero < 3 ? settings.data : 1;
}

/// The sequences that one group generates at a time: its share of --max-batch,
/// rounded up.
inline int64_t textsOfGroup(const Settings &settings) {
  const int64_t groups = groupsOf(settings);
  return (settings.maxBatch + groups - 1) / groups;
}

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_GROUPS_H
