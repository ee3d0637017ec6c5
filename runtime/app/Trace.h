//===- Trace.h - A timeline of launches -------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_TRACE_H
#define HEDDLE_RUNTIME_APP_TRACE_H

#include "heddle/runtime/core/Session.h"

#include <string>
#include <vector>

namespace heddle::rt {

/// Gathers the launches of a run's first steps and writes them in the trace
/// format that Perfetto and Chrome read.
class Trace {
public:
  /// An empty name: no trace. Rank 0 writes the file `name`, rank N of a job
  /// its name with `.rankN` before the ending. Throws H0402 when the file
  /// cannot be written.
  Trace(const std::string &name, const LoadedProgram &program,
        int64_t rank = 0);

  /// Room for the times of the next step, or null when it is not traced.
  LaunchTime *beginStep();
  /// Keeps what `beginStep` gave room for, as step `step`.
  void endStep(int64_t step);
  /// Writes the file; the path, empty when there is no trace. An event's
  /// arguments say the step, rank and stage, the command, and where it is of a
  /// fragment the fragment with its kind, chunk and micro-batch.
  std::string write(const plan::Plan &plan);

private:
  std::string path;
  const LoadedProgram &program;
  int64_t rank;
  std::vector<int64_t> steps;
  std::vector<LaunchTime> times; ///< The launches of each of `steps`.
};

/// How an entry is called in traces and tables: its kernel, `copy`, `fill`,
/// `all_reduce data for NAME`, `send F` and so on.
std::string launchName(const plan::Plan &plan, const LaunchInfo &info);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_TRACE_H
