//===- ReportPage.h - The page of a report ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_REPORT_REPORTPAGE_H
#define HEDDLE_TOOLS_HEDDLE_REPORT_REPORTPAGE_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::driver {

/// A plan that a report shows.
struct ReportedPlan {
  std::string name; ///< The name of the binary, for headings.
  plan::Plan plan;
  /// Changes of flags, with the memory that a plan would have with them. Empty
  /// if none were tried.
  nlohmann::json changes = nlohmann::json::array();
  /// Operations that could not share a kernel, and why. Empty if not known.
  nlohmann::json refusals = nlohmann::json::array();
};

/// The files that a report is made from, besides the plans.
struct ReportFiles {
  std::string cluster, trace, log; ///< "" for none.
  bool isRedacted = false;         ///< Whether the page leaves out paths.
};

/// Returns the page as HTML. `plans` has one or two plans; the trace and the
/// log are those of the first. Throws the errors of clusterOf, readTraces and
/// readRunLog.
std::string makeReport(std::vector<ReportedPlan> plans,
                       const ReportFiles &files);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_REPORT_REPORTPAGE_H
