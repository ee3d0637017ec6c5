//===- CompileFlags.h - Flags that all compiling verbs share ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flags that `heddle compile`, `fit` and `quantize` share.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_COMPILEFLAGS_H
#define HEDDLE_TOOLS_HEDDLE_COMPILEFLAGS_H

#include "heddle/Import/ModelSpec.h"
#include "heddle/runtime/io/Flags.h"

namespace heddle::driver {

/// Returns the default directory of the cache of compiled kernels, or "off".
std::string defaultCache();

/// Adds to a verb the flags of all settings in a group. `flags` gets the flags
/// that the user gives.
void addSettings(CLI::App &verb, const char *group, config::Flags &flags);

/// The settings in the two files that flags name: ds_config.json (--config) and
/// a strategy file (--strategy).
struct SettingsFiles {
  config::SettingsFile dsConfig, strategy;

  /// Merges the settings of flags, of ds_config.json and of the strategy file.
  /// `problems` of the result has the errors in the two files.
  config::ResolvedSettings merge(const config::Flags &flags) const {
    return config::mergeSettings(flags, dsConfig, strategy);
  }
};

/// Reads a ds_config.json and a strategy file; a name of "" means no file.
/// Throws ConfigErrors for an invalid strategy file, and H0101 for a
/// ds_config.json that cannot be read.
SettingsFiles readSettingsFiles(const std::string &dsConfig,
                                const std::string &strategy);

/// Prints the warnings that reading a model has produced.
void warnOfModel(const config::ModelSpec &model);

/// Copies into `request` the settings that are needed to read a model.
void tellReader(config::ModelRequest &request,
                const config::Settings &settings);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_COMPILEFLAGS_H
