//===- MemoryTimeline.h - Memory over the commands of a step ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which bytes of a rank are in use while each command of a program runs.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_REPORT_MEMORYTIMELINE_H
#define HEDDLE_TOOLS_HEDDLE_REPORT_MEMORYTIMELINE_H

#include "heddle/PlanFormat/FrameUse.h"
#include "heddle/PlanFormat/Plan.h"

namespace heddle::driver {

/// A command of a program, as charts and tables name it. The body of a loop and
/// the passes of a pipeline stage follow their command, each once.
struct TimelineCommand {
  std::string name;  ///< Such as `linear + gelu_tanh`, or `all_gather data`.
  std::string path;  ///< The module.
  int64_t depth = 0; ///< In how many bodies the command is.
  int64_t times = 1; ///< For a body's command: how often the body runs.
  std::string body;  ///< The name of the body, such as `loop` or `F`.
};

/// A buffer of the frame, or the frame of a called sequence.
struct TimelineBuffer {
  plan::FrameRange range;
  std::string name; ///< What computes its first value.
  std::string path;
  int64_t bytes = 0; ///< Without the padding for alignment.
};

/// The bytes in use from a command on, for each entry of
/// MemoryTimeline::owners.
struct OwnerBytes {
  int64_t command = 0;
  std::vector<int64_t> bytes;
};

/// The memory of one kind over a run of a program.
struct MemoryTimeline {
  plan::MemoryKind kind = plan::MemoryKind::Device;
  /// The uses of memory. Those that are constant over the run come first.
  std::vector<std::string> owners;
  std::vector<OwnerBytes> steps; ///< An entry where the bytes change.
  int64_t peak = 0;              ///< The command at which most bytes are used.
  /// The bytes of each owner at the peak. With `unused`, their sum is `bytes`.
  OwnerBytes atPeak;
  int64_t unused = 0; ///< Holes between buffers, and what other programs use.
  int64_t bytes = 0;  ///< What the plan reserves of this kind of memory.
  std::vector<TimelineBuffer> buffers;
  int64_t arenaBytes = 0; ///< The part of `bytes` in which buffers are.
};

/// The commands of a program with the memory of each kind that the plan uses.
struct ProgramTimeline {
  std::string name;
  /// Whether the memory is the frame of a called sequence alone, and not all
  /// that the plan reserves.
  bool isFrame = false;
  std::vector<TimelineCommand> commands;
  std::vector<MemoryTimeline> memory;
};

/// Returns the timeline of a program of the stage that `plan` has selected.
ProgramTimeline timelineOf(const plan::Plan &plan,
                           const plan::Program &program);

/// Returns the timeline of the frame of a sequence that programs call, such as
/// a layer. It has device memory alone, and nothing but the frame.
ProgramTimeline frameTimelineOf(const plan::Plan &plan, int64_t sequence);

/// Describes the timeline as docs/report.md says.
nlohmann::json toJson(const ProgramTimeline &timeline);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_REPORT_MEMORYTIMELINE_H
