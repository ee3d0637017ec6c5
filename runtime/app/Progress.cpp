//===- Progress.cpp - Progress on the terminal ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Progress.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace heddle::rt;

std::string heddle::rt::formatDuration(double seconds) {
  auto whole = int64_t(std::lround(std::max(0.0, seconds)));
  std::array<char, 48> text;
  auto hours = static_cast<long long>(whole / 3600);
  int minutes = int(whole / 60 % 60), rest = int(whole % 60);
  if (hours > 0)
    snprintf(text.data(), text.size(), "%lldh%02dm", hours, minutes);
  else if (minutes > 0)
    snprintf(text.data(), text.size(), "%dm%02ds", minutes, rest);
  else
    snprintf(text.data(), text.size(), "%ds", rest);
  return text.data();
}

JsonLine heddle::rt::logLine(const StepReport &report) {
  JsonLine line("step");
  line.add("step", report.step)
      .add("loss", report.loss)
      .add("grad_norm", report.gradNorm)
      .add("lr", report.lr)
      .add("tokens", report.tokens)
      .add("time_s", report.seconds)
      .add("tokens_per_s", report.tokensPerSecond())
      .add("mfu", report.mfu >= 0 ? report.mfu : NAN);
  if (report.lossScale)
    line.add("loss_scale", *report.lossScale);
  if (!report.bits.empty())
    line.addRaw("bits", nlohmann::json(report.bits).dump());
  if (report.skipped || report.lossScale)
    line.addRaw("skipped", report.skipped ? "true" : "false");
  if (!report.overflowModule.empty())
    line.add("overflow_module", report.overflowModule);
  if (!report.phase.empty())
    line.add("phase", report.phase);
  if (report.kept)
    report.kept->addTo(line);
  if (report.parts)
    report.parts->addTo(line);
  return line;
}

Progress::Progress(const std::string &name, int64_t begin, int64_t end)
    : mode(Mode::Plain), begin(begin), end(end) {
  if (name == "none")
    mode = Mode::None;
  else if (name == "auto" && isatty(STDERR_FILENO))
    mode = Mode::Bar;
}

Progress::~Progress() {
  if (barShown)
    print("\n");
}

/// Returns `number`, without the sign if it is NaN, which would be printed.
static double withoutSignOfNan(double number) {
  return std::isnan(number) ? std::fabs(number) : number;
}

/// Formats the values that both the progress bar and the plain line show, such
/// as "loss 2.1034  lr 3.00e-04".
static std::string describe(const StepReport &report) {
  std::array<char, 160> text;
  int used =
      snprintf(text.data(), text.size(),
               "loss %.4f  lr %.3e  grad norm %.4f  %.0f tok/s",
               withoutSignOfNan(report.loss), report.lr,
               withoutSignOfNan(report.gradNorm), report.tokensPerSecond());
  if (report.skipped && report.lossScale && report.hasLabels)
    used += snprintf(text.data() + used, text.size() - used,
                     "  skipped: overflow, loss scale %.9g", *report.lossScale);
  else if (report.skipped)
    used += snprintf(text.data() + used, text.size() - used,
                     !report.isFinite    ? "  skipped: not finite"
                     : !report.hasLabels ? "  skipped: no label counts"
                                         : "  skipped");
  if (report.mfu >= 0)
    snprintf(text.data() + used, text.size() - used, "  mfu %.1f%%",
             100 * report.mfu);
  return text.data();
}

void Progress::step(const StepReport &report) {
  total += report.seconds;
  if (mode == Mode::Plain) {
    std::array<char, 32> seconds;
    snprintf(seconds.data(), seconds.size(), "  %.3f s\n", report.seconds);
    print("step " + std::to_string(report.step) + "/" + std::to_string(end) +
          "  " + describe(report) + seconds.data());
  } else if (mode == Mode::Bar) {
    drawBar(report);
  }
}

/// Width of the terminal in columns.
static size_t terminalWidth() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return 80;
  return size.ws_col;
}

void Progress::drawBar(const StepReport &report) {
  double left = total / double(report.step - begin) * double(end - report.step);
  std::string text =
      std::to_string(report.step) + "/" + std::to_string(end) + " ";
  std::string tail = describe(report) + "  ETA " + formatDuration(left);
  // Truncate the line: one that wraps cannot be redrawn.
  size_t columns = terminalWidth() - 1;
  size_t used = text.size() + tail.size() + 3;
  if (used + 8 <= columns) {
    auto width = int64_t(std::min<size_t>(columns - used, 24));
    int64_t filled = std::min(width, report.step * width / end);
    text += "[" + std::string(filled, '=') + std::string(width - filled, ' ') +
            "] ";
  }
  text += tail;
  print("\r\033[K" + text.substr(0, columns));
  barShown = true;
}

void Progress::line(const std::string &text) {
  if (mode == Mode::None)
    return;
  print((barShown ? "\n" : "") + text + "\n");
  barShown = false;
}

void Progress::print(const std::string &text) {
  if (reader.takes(STDERR_FILENO))
    fputs(text.c_str(), stderr);
}
