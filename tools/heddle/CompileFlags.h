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

/// The default directory of compiled kernels, or "off".
std::string defaultCache();

/// Adds the flags of a group of settings to a verb.
void addSettings(CLI::App &verb, const char *group, config::Flags &flags);

/// The contents of the files that --config and --strategy name.
struct SettingsFiles {
  config::SettingsFile dsConfig, strategy;

  /// Merges settings of flags and files. `problems` of the result has the
  /// errors.
  config::ResolvedSettings merge(const config::Flags &flags) const {
    return config::mergeSettings(flags, dsConfig, strategy);
  }
};

/// Reads the files ("": none). Throws ConfigErrors for a bad strategy file,
/// H0101 for a bad ds_config.json.
SettingsFiles readSettingsFiles(const std::string &dsConfig,
                                const std::string &strategy);

/// Prints the warnings from reading a model.
void warnOfModel(const config::ModelSpec &model);

/// Copies the settings that the model's reader needs into `request`.
void tellReader(config::ModelRequest &request,
                const config::Settings &settings);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_COMPILEFLAGS_H
