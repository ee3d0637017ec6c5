//===- DsSchema.h - Every key of a ds_config.json ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_DSSCHEMA_H
#define HEDDLE_LIB_IMPORT_DSSCHEMA_H

#include <string>
#include <vector>

namespace heddle::config {

/// Types that a value may have; they add up.
enum DsType : unsigned {
  DsBool = 1,
  DsInt = 2, ///< Also a float with an integral value, as 5e8.
  DsNumber = 4,
  DsString = 8,
  DsList = 16,
  DsObject = 32,
  DsNull = 64,
  DsAuto = 128, ///< The string "auto".
};

/// What becomes of a key.
enum class DsRule {
  Section, ///< Its members have rules of their own.
  Gated,   ///< A section that is refused when its member `enabled` is true,
           ///< and has no effect otherwise.
  Applied, ///< Read by DsConfig.cpp.
  Ignored, ///< It has no meaning here; `why` says why.
  Neutral, ///< Refused unless its value is one of `neutral`.
};

struct DsKey {
  /// From the root; a segment `*` stands for any name.
  std::string path;
  unsigned types;
  DsRule rule;
  const char *why = "";
  /// The values that change nothing, as a JSON list.
  const char *neutral = "[false, null]";
};

/// Batch sizes, numbers, optimizer, schedule, and what reports.
const std::vector<DsKey> &dsTrainingKeys();
/// ZeRO, offload and parallelism.
const std::vector<DsKey> &dsParallelKeys();
/// Sections of features, each with its own switch.
const std::vector<DsKey> &dsFeatureKeys();

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_DSSCHEMA_H
