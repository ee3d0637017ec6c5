//===- Verbs.h - The verbs of the driver ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The verbs of the driver `heddle`. Each verb has a file `NAMEVerb.cpp`, which
// adds the verb's flags to the command line.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_VERBS_H
#define HEDDLE_TOOLS_HEDDLE_VERBS_H

#include "heddle/runtime/io/Flags.h"
#include <functional>
#include <string>

namespace heddle::driver {

/// What to do for the chosen verb, once the command line has been parsed.
/// Returns the exit status. May throw UserError.
using Action = std::function<int()>;

/// Each function adds a verb with its flags to `app`. If the user chooses that
/// verb, `action` is set to a function that runs it.
void addCompileVerb(CLI::App &app, Action &action);
void addFitVerb(CLI::App &app, Action &action);
void addExplainVerb(CLI::App &app, Action &action);
void addReportVerb(CLI::App &app, Action &action);
void addEvalVerb(CLI::App &app, Action &action);
void addDataVerb(CLI::App &app, Action &action);
void addCheckpointVerb(CLI::App &app, Action &action);
void addQuantizeVerb(CLI::App &app, Action &action);
void addLayoutVerb(CLI::App &app, Action &action);
void addRunVerb(CLI::App &app, Action &action);
void addEmulateVerb(CLI::App &app, Action &action);

/// Parses the command line and runs the verb; called by main.
int runDriver(int argc, char **argv);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_VERBS_H
