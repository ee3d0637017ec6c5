//===- CompileJob.h - A compilation and its results -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One compilation as data, and functions that run it. Verbs such as `heddle
// compile` read flags and files into a CompileJob.
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
  /// The model, or nothing if `module` names a dump.
  std::optional<config::ModelSpec> model;
  /// The draft model of speculative decoding, and its settings.
  std::optional<config::ModelSpec> draft;
  config::ResolvedSettings draftSettings;
  int64_t draftTokens = 0; ///< Most tokens that the draft proposes.
  /// An .mlir file: the forward function of `model` if that is set, otherwise a
  /// dump.
  std::string module;
  std::string output, dumpPhases, stopAfter, startFrom;
  std::string cache;   ///< Directory of compiled kernels, or "".
  std::string cluster; ///< JSON, or "" for none.
  /// Print the plan's size and write no binary.
  bool dryRun = false;
  bool timing = false, verbose = false, shardingReasons = false;
  LayerPrograms splitLayers = LayerPrograms::None;
};

/// Completes the settings that depend on the model, and checks them against it.
/// Throws UserError.
void settleSettings(CompileJob &job);

/// The result of a job.
struct JobEnd {
  int exitCode = 0;
  std::string code; ///< Code of the first error; empty without one.
};

/// Runs the job, and prints diagnostics. Does not throw.
JobEnd runCompileJob(const CompileJob &job);

/// The result of a job that ends with plans.
struct PlannedJob {
  /// A plan for each target; empty after an error, or if the job stops before
  /// the last phase.
  std::vector<plan::Plan> plans;
  std::vector<Diagnostic> errors;
};

/// Which bytes are known: those of parameters, gradients and optimizer, or all.
enum class KnownBytes { OfModel, All };
/// Called with the bytes of each kind of memory that a rank needs: with OfModel
/// when these are known, and later with All. If it returns false, the job ends
/// without plans or errors. Must not throw.
using GoesOn = std::function<bool(KnownBytes known,
                                  const plan::PerMemory<int64_t> &bytes)>;

/// Compiles a job with a model to plans. Does not print or throw.
PlannedJob planJob(const CompileJob &job, const GoesOn &goesOn = nullptr);

/// The description of the model in an .mlir file with a forward function;
/// nothing after an error, which was printed.
std::optional<config::ModelSpec> readForwardSpec(const std::string &path,
                                                 int &exitCode);

/// The strategy in an .mlir file (one `#dist.strategy` attribute) as JSON; adds
/// problems to `errors`.
std::string strategyFileToJson(const std::string &path,
                               std::vector<Diagnostic> &errors);

/// Flushes LLVM's output streams, whose destructors would abort the program
/// after a failed write. Returns the errno if output to stdout was lost, or 0;
/// lost output to stderr is not an error.
int flushCompilerOutput();

/// The names of the phases in order.
std::vector<std::string> phaseNames();

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_COMPILEJOB_H
