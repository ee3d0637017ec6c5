//===- Trace.h - A timeline of launches -------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a timeline of launches for Perfetto, as `--trace` asks.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_TRACE_H
#define HEDDLE_RUNTIME_APP_TRACE_H

#include "heddle/runtime/core/Session.h"

#include <string>
#include <vector>

namespace heddle::rt {

/// Records the launches of a run's first steps, and writes them in the trace
/// format of Perfetto and Chrome.
class Trace {
public:
  /// Limit of traced steps: viewers cannot handle a long run.
  static constexpr size_t maxSteps = 8;

  /// An empty name disables the trace. Rank 0 writes the file `name`, rank N
  /// the same with `.rankN` before the extension. Throws H0402 when the file
  /// cannot be written.
  /// `programs` are those that steps may run.
  Trace(const std::string &name,
        const std::vector<const LoadedProgram *> &programs, int64_t rank = 0);

  /// Begins a step that runs `program`. Returns the array into which the step's
  /// launches write their times; null if the step is not traced.
  LaunchTime *beginStep(const LoadedProgram &program);
  /// Ends the step that `beginStep` began. `step` is the step number that the
  /// trace shows.
  void endStep(int64_t step);
  /// Writes the file; returns its path, or "" if the trace is disabled. Each
  /// event has the step, rank, stage and command as arguments. Commands of a
  /// pipeline schedule also have the kind of pass (such as forward), the model
  /// chunk and the micro-batch.
  std::string write(const plan::Plan &plan);

private:
  struct Step {
    int64_t number;
    const LoadedProgram *program;
  };
  std::string path;
  int64_t rank;
  const LoadedProgram *current = nullptr; ///< The program of the step.
  std::vector<Step> steps;
  size_t stride = 0; ///< The most launches of a step.
  /// Times of all launches, step by step: `stride` elements for each.
  std::vector<LaunchTime> times;
};

/// Returns the name of a launch in traces and tables: a kernel's name, `copy`,
/// `fill`, `all_reduce data for NAME`, `send F` and so on.
std::string launchName(const plan::Plan &plan, const LaunchInfo &info);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_TRACE_H
