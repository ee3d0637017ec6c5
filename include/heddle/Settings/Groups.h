//===- Groups.h - Ranks that continue texts together ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_GROUPS_H
#define HEDDLE_SETTINGS_GROUPS_H

#include "heddle/Settings/Settings.h"

namespace heddle::config {

/// Ranks that share one copy of the weights continue texts as one group; how
/// many groups there are. ZeRO 3 splits weights along `data`, too.
inline int64_t groupsOf(const Settings &settings) {
  return settings.zero < 3 ? settings.data : 1;
}

/// Texts that a group continues together: of --max-batch, which groups share
/// out alike.
inline int64_t textsOfGroup(const Settings &settings) {
  const int64_t groups = groupsOf(settings);
  return (settings.maxBatch + groups - 1) / groups;
}

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_GROUPS_H
