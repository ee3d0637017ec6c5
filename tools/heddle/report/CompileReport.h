//===- CompileReport.h - The report of a compilation ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `heddle compile --report`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_REPORT_COMPILEREPORT_H
#define HEDDLE_TOOLS_HEDDLE_REPORT_COMPILEREPORT_H

#include "CompileJob.h"
#include "SmallerPlan.h"

namespace heddle::driver {

/// Makes the plans of the job with a change of flags. Returns none if the
/// changed flags are invalid.
using PlansWith = std::function<std::vector<plan::Plan>(const Change &)>;

/// Writes the page of the job's plan to `path`: of the binary that the job has
/// written, or of the plan of a dry run. The page says how much memory the plan
/// would need with some changes of flags.
void reportCompilation(const CompileJob &job, const std::string &path,
                       const PlansWith &plansWith);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_REPORT_COMPILEREPORT_H
