//===- Verbs.h - The verbs of the driver ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_VERBS_H
#define HEDDLE_TOOLS_HEDDLE_VERBS_H

#include "heddle/runtime/io/Flags.h"
#include <functional>
#include <string>

namespace heddle::driver {

/// What the chosen verb does once the command line has been read; returns the
/// exit status and may throw UserError.
using Action = std::function<int()>;

/// Each adds one verb with its flags, and sets `action` when it is chosen.
void addCompileVerb(CLI::App &app, Action &action);
void addFitVerb(CLI::App &app, Action &action);
void addExplainVerb(CLI::App &app, Action &action);
void addEvalVerb(CLI::App &app, Action &action);
void addDataVerb(CLI::App &app, Action &action);
void addCheckpointVerb(CLI::App &app, Action &action);
void addQuantizeVerb(CLI::App &app, Action &action);
void addRunVerb(CLI::App &app, Action &action);
void addEmulateVerb(CLI::App &app, Action &action);

/// Reads the command line and runs the verb: the driver's main.
int runDriver(int argc, char **argv);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_VERBS_H
