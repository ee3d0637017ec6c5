//===- DsSchema.h - Keys of ds_config.json without setting ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_DSSCHEMA_H
#define HEDDLE_LIB_IMPORT_DSSCHEMA_H

#include "heddle/Import/SettingTable.h"

namespace heddle::config {

/// Keys that no setting has: of numbers, optimizer, schedule, and what reports.
const std::vector<DsKey> &dsTrainingKeys();
/// ZeRO, offload and parallelism.
const std::vector<DsKey> &dsParallelKeys();
/// Sections of features, each with its own switch.
const std::vector<DsKey> &dsFeatureKeys();

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_DSSCHEMA_H
