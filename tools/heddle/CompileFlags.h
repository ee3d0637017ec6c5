//===- CompileFlags.h - What verbs that compile read alike ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_COMPILEFLAGS_H
#define HEDDLE_TOOLS_HEDDLE_COMPILEFLAGS_H

#include "heddle/Import/ModelSpec.h"
#include "heddle/runtime/io/Flags.h"

namespace heddle::driver {

/// The directory of compiled kernels where nobody names one, or "off".
std::string defaultCache();

/// Adds the flags of settings that a group has.
void addSettings(CLI::App &verb, const char *group, config::Flags &flags);

/// The files that --config and --strategy name.
struct SettingsFiles {
  config::SettingsFile dsConfig, strategy;

  /// Settings of flags and files. What is wrong with them is in `problems`.
  config::ResolvedSettings merge(const config::Flags &flags) const {
    return config::mergeSettings(flags, dsConfig, strategy);
  }
};

/// Reads them ("": none). Throws ConfigErrors for a strategy that cannot be
/// read, H0101 for a ds_config.json that cannot be.
SettingsFiles readSettingsFiles(const std::string &dsConfig,
                                const std::string &strategy);

/// Prints what the reader of a model warns of.
void warnOfModel(const config::ModelSpec &model);

/// Tells the reader of a model what settings say of it.
void tellReader(config::ModelRequest &request,
                const config::Settings &settings);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_COMPILEFLAGS_H
