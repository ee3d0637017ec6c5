//===- DsSchema.h - Keys of ds_config.json without setting ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The keys of ds_config.json that give no setting, with a rule for each:
// whether the key is ignored or rejected, and why.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_DSSCHEMA_H
#define HEDDLE_LIB_IMPORT_DSSCHEMA_H

#include "heddle/Import/SettingTable.h"

namespace heddle::config {

/// Keys about precision, optimizer, schedule and logging.
const std::vector<DsKey> &dsTrainingKeys();
/// Keys about ZeRO, offload and parallelism.
const std::vector<DsKey> &dsParallelKeys();
/// Sections that configure one feature each, with a member that enables it.
const std::vector<DsKey> &dsFeatureKeys();

/// Keys of the section `sparse_attention`.
std::vector<DsKey> sparseAttentionKeys();
/// Keys of the sections `quantize_training` and
/// `compression_training.weight_quantization`.
std::vector<DsKey> quantizeTrainingKeys();

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_DSSCHEMA_H
