//===- CompileJob.h - What heddle compile was asked to do -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_COMPILEJOB_H
#define HEDDLE_TOOLS_HEDDLE_COMPILEJOB_H

#include "heddle/Import/ModelSpec.h"
#include "heddle/Pipelines/LayerPrograms.h"
#include "heddle/PlanFormat/Plan.h"
#include <functional>
#include <optional>

namespace heddle::driver {

/// A compilation whose input files and flags have been read and checked.
struct CompileJob {
  config::ResolvedSettings settings;
  /// The model that was read, or nothing when `module` names a dump.
  std::optional<config::ModelSpec> model;
  /// A second model, which guesses tokens for it, and its settings.
  std::optional<config::ModelSpec> draft;
  config::ResolvedSettings draftSettings;
  int64_t draftTokens = 0; ///< That it guesses at most.
  std::string module; ///< An .mlir file: a dump, or with `model` its forward
                      ///< function.
  std::string output, dumpPhases, stopAfter, startFrom;
  std::string cache;   ///< A directory, or "" for none.
  std::string cluster; ///< JSON, or "" for none.
  /// Prints the plan's size, makes no binary.
  bool dryRun = false;
  bool timing = false, verbose = false, shardingReasons = false;
  LayerPrograms splitLayers = LayerPrograms::None;
};

/// Fills in the settings that only the job's model can say, and checks them
/// against it. Throws UserError.
void settleSettings(CompileJob &job);

/// How a job ended.
struct JobEnd {
  int exitCode = 0;
  std::string code; ///< Of the first error, or "".
};

/// Runs it and prints diagnostics. Throws nothing.
JobEnd runCompileJob(const CompileJob &job);

/// What the phases make of a job when no binary is written.
struct PlannedJob {
  /// One for each target; none after an error, or if the job stops before the
  /// last phase.
  std::vector<plan::Plan> plans;
  std::vector<Diagnostic> errors;
};

/// Of a plan's bytes those of parameters, gradients and optimizer, or all.
enum class KnownBytes { OfModel, All };
/// Asked with the bytes of each kind of memory that a rank needs, while there
/// is no plan yet: first OfModel, then All. If it says no, the job ends there
/// without plans or errors. Must throw nothing.
using GoesOn = std::function<bool(KnownBytes known,
                                  const plan::PerMemory<int64_t> &bytes)>;

/// The plans of a job whose model was read. Prints nothing, throws nothing.
PlannedJob planJob(const CompileJob &job, const GoesOn &goesOn = nullptr);

/// What a forward function in an .mlir file says of its model; nothing after an
/// error, which was printed.
std::optional<config::ModelSpec> readForwardSpec(const std::string &path,
                                                 int &exitCode);

/// The strategy in an .mlir file (one `#dist.strategy` attribute), as JSON; all
/// that is wrong with it is added to `errors`.
std::string strategyFileToJson(const std::string &path,
                               std::vector<Diagnostic> &errors);

/// Ends with LLVM's own streams, which would abort the program when a write had
/// failed. Gives the reason (an errno) for which something of stdout was lost,
/// or 0; what was lost of stderr is no failure.
int flushCompilerOutput();

/// The names of the phases, in order.
std::vector<std::string> phaseNames();

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_COMPILEJOB_H
