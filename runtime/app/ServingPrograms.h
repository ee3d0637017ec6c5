//===- ServingPrograms.h - Run programs that serve --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fills the inputs of programs that serve or encode, runs the programs, and
// reads their outputs.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SERVINGPROGRAMS_H
#define HEDDLE_RUNTIME_APP_SERVINGPROGRAMS_H

#include "Trace.h"
#include "heddle/runtime/core/Staging.h"

#include <map>

namespace heddle::rt {

/// Programs of a session that share one pair of pinned buffers for inputs and
/// outputs: the host waits for the outputs of a run before it runs other
/// programs twice.
class ServingPrograms {
public:
  explicit ServingPrograms(Session &session)
      : session(session),
        buffers(std::make_shared<StagingBuffers>(session.runsOn())) {}

  /// Adds a program. All programs must be added before one of them runs.
  void add(const LoadedProgram &program);

  /// Fills the program's input with the given role (what the input is for, such
  /// as positions) for the next run. Element (row, column) becomes
  /// `valueAt(row, column)`. The input has 32-bit elements and at most two
  /// dimensions. Does nothing if the program has no such input.
  template <typename Function>
  void fill(const LoadedProgram &program, plan::PortRole role,
            Function valueAt) {
    const Value *port = program.input(role);
    if (!port)
      return;
    const Staging &staging = staged.at(&program).staging;
    int64_t rows = port->shape.empty() ? 1 : port->shape[0];
    int64_t columns = port->shape.size() < 2 ? 1 : port->shape[1];
    auto *data = staging.at<int32_t>(*port);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column)
        *data++ = valueAt(row, column);
    staging.store(*port);
  }
  /// The next runs are recorded in `newTrace`; null: they are not.
  void setTrace(Trace *newTrace) { trace = newTrace; }
  /// Submits a run of the program. All its inputs must have been filled.
  void run(const LoadedProgram &program);
  /// Waits for the program's last run, and returns its value of `output`, an
  /// output of the program. At most one other run may have followed it.
  const char *result(const LoadedProgram &program, const Value &output);

private:
  struct Staged {
    Staging staging;
    int64_t lastRun = -1;
  };

  Session &session;
  std::shared_ptr<StagingBuffers> buffers;
  std::map<const LoadedProgram *, Staged> staged;
  Trace *trace = nullptr;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SERVINGPROGRAMS_H
