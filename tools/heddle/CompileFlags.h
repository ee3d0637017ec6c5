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

/// Settings of the flags and of the files --config and --strategy ("": none).
/// What is wrong with them is in `problems`. Throws ConfigErrors for a
/// strategy that cannot be read.
config::ResolvedSettings mergeFiles(const config::Flags &flags,
                                    const std::string &dsConfig,
                                    const std::string &strategy);

/// Tells the reader of a model what settings say of it.
void addSettings(config::ModelRequest &request,
                 const config::Settings &settings);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_COMPILEFLAGS_H
