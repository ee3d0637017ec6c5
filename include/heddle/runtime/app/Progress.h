//===- Progress.h - Progress on the terminal --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shows the steps of `train` on stderr, as a bar on a terminal or as lines.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_PROGRESS_H
#define HEDDLE_RUNTIME_APP_PROGRESS_H

#include "heddle/PlanFormat/Format.h"
#include "heddle/runtime/app/KeptLayers.h"
#include "heddle/runtime/app/SlowReader.h"
#include "heddle/runtime/app/StepParts.h"
#include <cstdint>
#include <map>
#include <string>

namespace heddle::rt {

using plan::formatBytes;

/// The results of one training step.
struct StepReport {
  int64_t step = 0;
  double loss = 0;
  double gradNorm = 0;
  double lr = 0;
  int64_t tokens = 0;
  double seconds = 0;
  bool isFinite = true;  ///< Loss and gradient norm are finite.
  bool hasLabels = true; ///< The loss counts a label of the batch.
  bool skipped = false;  ///< The step made no update.
  double mfu = -1;       ///< Model FLOPs utilization; negative: unknown.
  std::optional<KeptLayers> kept; ///< nullopt: the plan drops no layers.
  std::optional<StepParts> parts; ///< How long the parts of the step took.
  std::string phase; ///< Empty if the plan has only one train program.
  std::optional<double> lossScale; ///< nullopt: the plan has no loss scale.
  std::map<std::string, int64_t> bits; ///< As StepResult::bits.
  /// The module in whose gradient the step has overflowed; empty: unknown, or
  /// the step has not overflowed.
  std::string overflowModule;

  double tokensPerSecond() const {
    return seconds > 0 ? double(tokens) / seconds : 0;
  }
};

/// The line of the log for a step.
JsonLine logLine(const StepReport &report);

/// Shows steps on stderr: a bar on a terminal, else one line for each.
class Progress {
public:
  /// `mode` is auto, plain or none; steps run from `begin` to `end`.
  Progress(const std::string &mode, int64_t begin, int64_t end);
  ~Progress();

  void step(const StepReport &report);
  /// Prints a line for an event that is not a step.
  void line(const std::string &text);

private:
  void drawBar(const StepReport &report);
  /// Prints to stderr. Drops the text if stderr is a full pipe that nobody
  /// reads, because the run must not wait for a reader.
  void print(const std::string &text);

  enum class Mode { Bar, Plain, None } mode;
  int64_t begin, end;
  bool barShown = false;
  SlowReader reader;
  double total = 0; ///< Seconds of all steps so far.
};

/// Formats a duration: `1h02m`, `3m20s`, `14s`.
std::string formatDuration(double seconds);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_PROGRESS_H
