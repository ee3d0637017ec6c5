//===- RunLog.h - The log of a run ------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the file that a run wrote with --log.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_REPORT_RUNLOG_H
#define HEDDLE_TOOLS_HEDDLE_REPORT_RUNLOG_H

#include "Drawings.h"

namespace heddle::driver {

/// What a run logged.
struct RunLog {
  std::vector<RunCurve> curves; ///< Such as the loss, over the steps.
  /// Everything but the steps: starts, evaluations, saved checkpoints, errors,
  /// and the steps that updated nothing.
  nlohmann::json events = nlohmann::json::array();
  int64_t steps = 0;
};

/// Reads a log. Throws H0388 if the file is no log, or if it is the log of
/// another plan.
RunLog readRunLog(const std::string &path, const plan::Plan &plan);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_REPORT_RUNLOG_H
