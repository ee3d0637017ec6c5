//===- Driver.cpp - Reads the command line --------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses the command line of `heddle` with CLI11, and runs the chosen verb.
//
//===----------------------------------------------------------------------===//

#include "CommandAdvice.h"
#include "CompileJob.h"
#include "Verbs.h"
#include "heddle/Import/Settings.h"
#include "heddle/runtime/io/Process.h"
#include <iostream>

using namespace heddle;
using namespace heddle::driver;

/// Returns how many words of the command line belong to `heddle`. The words
/// after the BINARY of `heddle run`, and after the COMMAND of `heddle emulate`,
/// belong to the program that is started. BINARY and COMMAND are found because
/// all flags of these verbs take a value.
static size_t countOwnWords(const std::vector<std::string> &words) {
  if (words.empty() || (words.front() != "run" && words.front() != "emulate"))
    return words.size();
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i].empty() || words[i][0] != '-' || words[i] == "--")
      return i + 1;
    if (words[i].find('=') == std::string::npos)
      ++i;
  }
  return words.size();
}

/// Parses the command line and runs the verb.
static int runVerb(int argc, char **argv) {
  CLI::App app("Heddle compiles a model and a parallelism plan into one native "
               "binary.",
               "heddle");
  app.set_version_flag("--version", "heddle " HEDDLE_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.option_defaults()->always_capture_default();
  Action action;
  addCompileVerb(app, action);
  addFitVerb(app, action);
  addExplainVerb(app, action);
  addReportVerb(app, action);
  addEvalVerb(app, action);
  addDataVerb(app, action);
  addCheckpointVerb(app, action);
  addQuantizeVerb(app, action);
  addLayoutVerb(app, action);
  addRunVerb(app, action);
  addEmulateVerb(app, action);
  try {
    std::vector<std::string> words(argv + 1, argv + argc);
    app.parse(io::wordsForParser(words, countOwnWords(words)));
    return action();
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app.exit(error);
    Diagnostic wrong =
        io::describeUsage(app, error, "H0113", "H0114", adviseOnDriver);
    std::cerr << wrong.format();
    return wrong.exitCode();
  } catch (const config::ConfigErrors &errors) {
    for (const Diagnostic &error : errors.all)
      std::cerr << error.format();
    return errors.diagnostic.exitCode();
  } catch (const UserError &error) {
    std::cerr << error.diagnostic.format();
    return error.diagnostic.exitCode();
  } catch (const std::exception &error) {
    Diagnostic diagnostic;
    diagnostic.code = "H0903";
    diagnostic.message = error.what();
    diagnostic.help =
        "this is a bug in Heddle: report it with the command line";
    std::cerr << diagnostic.format();
    return diagnostic.exitCode();
  }
}

int driver::runDriver(int argc, char **argv) {
  int status = runVerb(argc, argv);
  int lost = flushCompilerOutput();
  if (status != 0)
    return status;
  try {
    if (lost)
      io::failToPrint(lost);
    io::flushStandardOutput();
    return status;
  } catch (const UserError &error) {
    std::cerr << error.diagnostic.format();
    return error.diagnostic.exitCode();
  }
}
