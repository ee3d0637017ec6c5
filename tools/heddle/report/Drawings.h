//===- Drawings.h - Pictures of a plan --------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pictures of `heddle explain --svg` and of the page of `heddle report`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_REPORT_DRAWINGS_H
#define HEDDLE_TOOLS_HEDDLE_REPORT_DRAWINGS_H

#include "Chart.h"
#include "ExplainSchedule.h"
#include "MemoryTimeline.h"
#include <optional>

namespace heddle::driver {

/// Draws the bytes of each owner over the commands of a program, and below the
/// buffers at their offsets. `budget` is 0 if there is none, as for a frame.
/// `rankClass` names the ranks.
std::string drawMemory(const ProgramTimeline &timeline,
                       const MemoryTimeline &memory, int64_t budget,
                       const std::string &rankClass, bool isStandalone);

/// Draws the passes of all pipeline stages over time. With `measured`, draws
/// these below those of `planned`, and marks which passes take longer. Without
/// a pipeline, draws when the streams of the only stage are busy, if their
/// times are known.
std::string drawSchedule(const plan::Plan &plan, const StepSchedule &planned,
                         const StepSchedule *measured,
                         const cost::ClusterCost *cost, bool isStandalone);

/// Draws when each stream is busy in a run of a program of the stage that
/// `plan` has selected.
std::string drawStreams(const plan::Plan &plan, const plan::Program &program,
                        const cost::ClusterCost &cost, bool isStandalone);

/// Draws how the slowest stages of plans spend a step, a bar for each plan.
/// `steps` has the plans' names, "" if there is one alone, and their entries
/// `step` of `heddle explain --json`.
using NamedStep = std::pair<std::string, nlohmann::json>;
std::string drawStepBars(const std::vector<NamedStep> &steps);

/// Draws the passes of the pipeline stages of two plans over the same time. ""
/// if one of them has no pipeline.
std::string drawSchedulesOfTwo(const StepSchedule &first,
                               const StepSchedule &second,
                               const std::string &firstName,
                               const std::string &secondName);

/// Draws the bytes that a rank sends in a step, by axis and kind, and those
/// that it copies between kinds of memory. `explained` is the output of
/// `heddle explain --json`.
std::string drawTransfers(const nlohmann::json &explained, bool isStandalone);

/// Draws the ranks on their nodes, and says what each axis of the mesh shares
/// out. `cluster` may be null.
std::string drawMesh(const plan::Plan &plan, const cost::Cluster *cluster,
                     bool isStandalone);

/// Draws which parameters are split over ranks, by layer: for use, by ZeRO, or
/// both. "" if the plan has no parameters.
std::string drawParameters(const plan::Plan &plan);

/// Draws each layout of attention of the plan.
std::vector<std::string> drawLayouts(const plan::Plan &plan);

/// Returns one picture with the pictures of drawLayouts below each other.
std::string stackLayouts(const std::vector<std::string> &pictures);

/// Draws kernels by their operations for each byte and their rate. `kernels` is
/// the entry of `heddle explain --json`.
std::string drawRoofline(const nlohmann::json &kernels,
                         const cost::Cluster &cluster);

/// A line of a run's chart: values of steps.
struct RunCurve {
  std::string name;
  std::vector<std::pair<double, double>> points; ///< Step and value.
};
std::string drawCurve(const RunCurve &curve);

/// Draws the owners' bytes of two plans as two bars.
std::string drawOwnersOfTwo(const nlohmann::json &first,
                            const nlohmann::json &second,
                            const std::string &firstName,
                            const std::string &secondName);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_REPORT_DRAWINGS_H
