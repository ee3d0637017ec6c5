//===- Progress.h - What a person sees of a run -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_PROGRESS_H
#define HEDDLE_RUNTIME_APP_PROGRESS_H

#include "heddle/PlanFormat/Format.h"
#include "heddle/runtime/app/SlowReader.h"
#include <cstdint>
#include <string>

namespace heddle::rt {

using plan::formatBytes;

/// What one training step was like.
struct StepReport {
  int64_t step = 0;
  double loss = 0;
  double gradNorm = 0;
  double lr = 0;
  int64_t tokens = 0;
  double seconds = 0;
  bool isFinite = true; ///< Loss and norm.
  bool skipped = false; ///< Nothing was updated: no label counted, or they are
                        ///< not finite.
  double mfu = -1;      ///< Share of the peak; negative: not known.

  double tokensPerSecond() const {
    return seconds > 0 ? double(tokens) / seconds : 0;
  }
};

/// Shows the steps on stderr: a bar on a terminal, else a line for each.
class Progress {
public:
  /// `mode` is auto, plain or none; steps run from `begin` to `end`.
  Progress(const std::string &mode, int64_t begin, int64_t end);
  ~Progress();

  void step(const StepReport &report);
  /// A line of its own, for events that are no steps.
  void line(const std::string &text);

private:
  void drawBar(const StepReport &report);
  /// Prints it, or loses it where nobody reads stderr.
  void print(const std::string &text);

  enum class Mode { Bar, Plain, None } mode;
  int64_t begin, end;
  bool barShown = false;
  SlowReader reader;
  double total = 0; ///< Seconds of the steps so far.
};

/// `1h02m`, `3m20s`, `14s`.
std::string formatDuration(double seconds);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_PROGRESS_H
