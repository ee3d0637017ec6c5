//===- CompileJob.h - A compilation and its results -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The description of one compilation, and functions that run it. Verbs such as
// `heddle compile` make a CompileJob from their flags and files.
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
  /// The model to compile. Not set if `module` is an IR dump of an earlier
  /// compilation, which contains the model.
  std::optional<config::ModelSpec> model;
  /// The draft model for speculative decoding, and its settings. Not set if
  /// there is none.
  std::optional<config::ModelSpec> draft;
  config::ResolvedSettings draftSettings;
  int64_t draftTokens = 0; ///< Most tokens that the draft proposes.
  /// The path of an .mlir file, or "". If `model` is set, the file has the
  /// model's forward function. Otherwise it is an IR dump of an earlier
  /// compilation.
  std::string module;
  std::string output, dumpPhases, stopAfter, startFrom;
  std::string cache;   ///< Directory of compiled kernels, or "".
  std::string cluster; ///< JSON, or "" for none.
  /// Whether to print the number of parameters and kernels and the memory that
  /// a rank needs, instead of writing a binary.
  bool dryRun = false;
  bool timing = false, verbose = false, shardingReasons = false;
  LayerPrograms splitLayers = LayerPrograms::None;
};

/// Completes the settings that depend on the model, and checks that they fit
/// the model. Throws UserError.
void settleSettings(CompileJob &job);

/// The result of a job.
struct JobEnd {
  int exitCode = 0;
  std::string code; ///< Code of the first error; empty without one.
};

/// Runs the job and prints its diagnostics. Throws no exception.
JobEnd runCompileJob(const CompileJob &job);

/// The result of a job that makes plans and writes no binary.
struct PlannedJob {
  /// One plan for each target. Empty after an error, or if the job stops before
  /// the last phase.
  std::vector<plan::Plan> plans;
  std::vector<Diagnostic> errors;
  /// Remarks of a job whose `verbose` is set, such as rejected fusions, each
  /// with the path of its module.
  std::vector<std::pair<std::string, std::string>> remarks;
};

/// Which of a rank's bytes are known at a point of the compilation: those of
/// parameters, gradients and optimizer states (OfModel), or all.
enum class KnownBytes { OfModel, All };
/// Decides whether a job goes on. It is called with the bytes of each kind of
/// memory that a rank needs, first when those of parameters, gradients and
/// optimizer states are known, and again when all are known. If it returns
/// false, the job ends without plans and without errors. Must not throw.
using GoesOn = std::function<bool(KnownBytes known,
                                  const plan::PerMemory<int64_t> &bytes)>;

/// Makes plans for a job whose `model` is set. Prints nothing, and throws no
/// exception.
PlannedJob planJob(const CompileJob &job, const GoesOn &goesOn = nullptr);

/// Reads the description of the model in an .mlir file that has a forward
/// function. Returns nothing after an error, which was printed.
std::optional<config::ModelSpec> readForwardSpec(const std::string &path,
                                                 int &exitCode);

/// Reads an .mlir file that has one attribute `#dist.strategy`, which holds
/// settings of a compilation. Returns these settings as JSON, and adds errors
/// to `errors`.
std::string strategyFileToJson(const std::string &path,
                               std::vector<Diagnostic> &errors);

/// Flushes LLVM's output streams. Otherwise their destructors would abort the
/// program if a write had failed. Returns the errno if output to stdout was
/// lost, otherwise 0. Lost output to stderr is no error.
int flushCompilerOutput();

/// Returns the names of all phases (groups of passes) of a compilation, in the
/// order in which they run.
std::vector<std::string> phaseNames();

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_COMPILEJOB_H
