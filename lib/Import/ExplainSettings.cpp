//===- ExplainSettings.cpp - The tables of --explain-config ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints the tables of `--explain-config`, and says why a setting has no
// effect.
//
//===----------------------------------------------------------------------===//

#include "SettingReaders.h"
#include "heddle/Settings/OffloadedRoles.h"
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>

using namespace heddle;
using namespace heddle::config;

namespace {

constexpr size_t numColumns = 4, indent = 2, gap = 2;
using Cells = std::array<std::string, numColumns>;
using Widths = std::array<size_t, numColumns>;

} // namespace

/// Returns the end of a line of at most `width` characters. The line ends
/// before its last blank. If it has no blank, it ends after the last character
/// at which a line may break; if there is none either, it ends at `width`.
static size_t endOfLine(const std::string &text, size_t begin, size_t width) {
  if (text.size() - begin <= width)
    return text.size();
  size_t blank = text.rfind(' ', begin + width);
  if (blank != std::string::npos && blank > begin)
    return blank;
  size_t mark = text.find_last_of("./,:_-@", begin + width - 1);
  return mark != std::string::npos && mark > begin ? mark + 1 : begin + width;
}

static std::vector<std::string> wrap(const std::string &text, size_t width) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = endOfLine(text, begin, width);
    lines.push_back(text.substr(begin, end - begin));
    begin = end < text.size() && text[end] == ' ' ? end + 1 : end;
  }
  return lines;
}

std::string config::wrapText(const std::string &text, size_t width) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    size_t margin = std::min(line.find_first_not_of(' '), line.size());
    std::string begin(margin, ' ');
    for (const std::string &part :
         wrap(line.substr(margin), width - margin - indent)) {
      result += begin + part + "\n";
      begin = std::string(margin + indent, ' ');
    }
  }
  return result;
}

/// Chooses column widths such that the columns fill a line. The last column
/// gets the width that the others leave. If this is too little to read, the
/// widest of the other columns become narrower.
static Widths fitColumns(const std::vector<Cells> &rows, size_t width) {
  constexpr size_t readable = 26, least = 8;
  Widths widths = {};
  for (const Cells &cells : rows)
    for (size_t i = 0; i < numColumns; ++i)
      widths[i] = std::max(widths[i], cells[i].size());
  const size_t last = widths.back(), wanted = std::min(last, readable);
  auto used = [&] {
    return indent + gap * (numColumns - 1) + widths[0] + widths[1] + widths[2];
  };
  while (used() + wanted > width) {
    size_t &widest = *std::max_element(widths.begin(), widths.end() - 1);
    if (widest <= least)
      break;
    --widest;
  }
  widths.back() =
      std::min(last, width > used() + least ? width - used() : least);
  return widths;
}

static std::string formatCells(const Cells &cells, const Widths &widths) {
  std::array<std::vector<std::string>, numColumns> lines;
  size_t height = 0;
  for (size_t i = 0; i < numColumns; ++i) {
    lines[i] = wrap(cells[i], std::max<size_t>(1, widths[i]));
    height = std::max(height, lines[i].size());
  }
  std::string text;
  for (size_t row = 0; row < height; ++row) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < numColumns; ++i) {
      std::string cell = row < lines[i].size() ? lines[i][row] : "";
      line += cell + std::string(widths[i] + gap - cell.size(), ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string config::formatRows(const std::string &heading,
                               const std::vector<ExplainRow> &rows,
                               const ExplainStyle &style) {
  std::vector<Cells> shown;
  size_t hidden = 0;
  for (const ExplainRow &row : rows) {
    if (row.verdict == "no meaning here" && !style.all) {
      ++hidden;
      continue;
    }
    // Prints the name of a file without its directories.
    std::string origin = row.origin.substr(row.origin.find_last_of('/') + 1);
    std::string verdict =
        row.verdict + (row.why.empty() || row.verdict.empty() ? "" : ": ");
    shown.push_back({row.key, row.value, origin, verdict + row.why});
  }
  if (rows.empty())
    return "";
  Widths widths = fitColumns(shown, style.width);
  std::string text = heading + "\n";
  for (const Cells &cells : shown)
    text += formatCells(cells, widths);
  if (hidden == 0)
    return text;
  std::string note = "(" + std::to_string(hidden) +
                     " without meaning here: see --explain-config --all)";
  for (const std::string &line : wrap(note, style.width - indent))
    text += std::string(indent, ' ') + line + "\n";
  return text;
}

//===----------------------------------------------------------------------===//
// Why a setting has no effect
//===----------------------------------------------------------------------===//

/// The number of ranks that hold the same parameters.
static int64_t replicasOf(const Settings &values) {
  return values.data * values.sequence;
}

const char *config::whyNothingIsSplit(const Settings &values) {
  return replicasOf(values) == 1 ? "no data or seq ranks: nothing is split"
                                 : "";
}

const char *config::whyNothingIsGathered(const Settings &values) {
  return values.zero < 3 || replicasOf(values) == 1
             ? "nothing is gathered without ZeRO 3 and data or seq ranks"
             : "";
}

const char *config::whyNothingIsBrought(const Settings &values) {
  return values.placeParameters == MemoryKind::Device
             ? whyNothingIsGathered(values)
             : "";
}

const char *config::whyNoPipeline(const Settings &values) {
  return values.pipe == 1 ? "one pipeline stage" : "";
}

const char *config::whyOneTensorRank(const Settings &values) {
  return values.tensor == 1 ? "one tensor rank" : "";
}

const char *config::whyNothingIsAlike(const Settings &values) {
  return values.mode == Mode::Train ? whyOneTensorRank(values)
                                    : whyNothingTrains(values);
}

const char *config::whyOneSeqRank(const Settings &values) {
  return values.sequence == 1 ? "one seq rank" : "";
}

const char *config::whyOneRank(const Settings &values) {
  return replicasOf(values) * values.tensor * values.pipe == 1
             ? "one rank: no collective"
             : "";
}

const char *config::whyNoGradientTravels(const Settings &values) {
  return replicasOf(values) == 1 ? "no data or seq ranks: no gradient travels"
                                 : "";
}

const char *config::whyNoGpu(const Settings &values) {
  return factsOf(values.target).hasGemmSettings ? "" : "the target is no GPU";
}

const char *config::whyNoCache(const Settings &values) {
  return values.mode == Mode::Encode ? "the mode is encode" : "";
}

const char *config::whyNothingTrains(const Settings &values) {
  return values.mode == Mode::Train ? "" : "the binary does not train";
}

const char *config::whyNotLamb(const Settings &values) {
  return values.optimizer == Optimizer::Lamb ||
                 values.optimizer == Optimizer::OneBitLamb
             ? whyNothingTrains(values)
             : "the optimizer is not Lamb or OneBitLamb";
}

const char *config::whyNotOneBitLamb(const Settings &values) {
  return values.optimizer == Optimizer::OneBitLamb
             ? whyNothingTrains(values)
             : "the optimizer is not OneBitLamb";
}

const char *config::whyNothingFreezes(const Settings &values) {
  return values.optimizer == Optimizer::OneBitAdam ||
                 values.optimizer == Optimizer::OneBitLamb
             ? whyNothingTrains(values)
             : "the optimizer is not OneBitAdam or OneBitLamb";
}

const char *config::whyNoTensorIsDense(const Settings &values) {
  return values.optimizer == Optimizer::OneBitAdam ||
                 values.optimizer == Optimizer::ZeroOneAdam
             ? whyNothingTrains(values)
             : "the optimizer is not OneBitAdam or ZeroOneAdam";
}

const char *config::whyNotZeroOneAdam(const Settings &values) {
  return values.optimizer == Optimizer::ZeroOneAdam
             ? whyNothingTrains(values)
             : "the optimizer is not ZeroOneAdam";
}

const char *config::whyNotProgressive(const Settings &values) {
  return values.layerDropTheta == 1 ? "no progressive layer dropping"
                                    : whyNothingTrains(values);
}

const char *config::whyNothingIsQuantized(const Settings &values) {
  return values.moq.empty() ? "no --moq" : whyNothingTrains(values);
}

const char *config::whyNothingIsProfiled(const Settings &values) {
  return values.profileStep == 0 ? "no profile" : whyNothingTrains(values);
}

const char *config::whyNotDynamic(const Settings &values) {
  return values.lossScale == "dynamic" ? whyNothingTrains(values)
                                       : "no dynamic loss scale";
}

const char *config::whyNothingIsPlaced(const Settings &values) {
  return values.placeOptimizer == MemoryKind::Device &&
                 values.placeParameters == MemoryKind::Device &&
                 values.placeGradients == MemoryKind::Device
             ? "all states are in the device's memory"
             : "";
}

const char *config::whyNothingOnFile(const Settings &values) {
  for (const OffloadedRole &role : offloadedRoles)
    if (values.*role.place == MemoryKind::File)
      return "";
  return "nothing is on file";
}

const char *config::whyTraining(const Settings &values) {
  return values.mode == Mode::Train
             ? "the mode is train: products read weights as they are"
             : "";
}

const char *config::whyNoSchedule(const Settings &values) {
  return values.scheduler == Scheduler::None
             ? "no schedule: the rate is constant"
             : "";
}

std::string config::warnOfMode(const ResolvedSettings &settings) {
  // Maps a reason to the flags that have no effect for this reason. A flag that
  // gives several settings is listed once.
  std::map<std::string, std::string> idle;
  std::set<std::string> named;
  for (const SettingField &field : settingFields()) {
    auto found = settings.origins.find(field.key);
    if (found == settings.origins.end() ||
        found->second.kind != Origin::Kind::Flag)
      continue;
    for (auto why : {whyTraining, whyNothingTrains, whyNoCache, whyNotDynamic,
                     whyNothingFreezes, whyNotZeroOneAdam})
      if (field.whyIdle == why && *why(settings.values) &&
          named.insert(found->second.text).second) {
        std::string &flags = idle[why(settings.values)];
        flags += (flags.empty() ? "" : ", ") + found->second.text;
      }
  }
  std::string warning;
  for (const auto &[why, flags] : idle)
    warning +=
        (warning.empty() ? "" : "; ") + flags + " without effect: " + why;
  return warning;
}

/// Returns the rows for the keys in the user's files. If a key is applied to a
/// setting that has no effect, its row says so.
static std::vector<ExplainRow> rowsOfKeys(const ResolvedSettings &settings) {
  std::map<std::string, std::string> idle; // Reasons, by the key's path.
  for (const SettingField &field : settingFields())
    for (const DsKey &key : field.keys)
      if (field.whyIdle)
        idle[key.path] = field.whyIdle(settings.values);
  std::vector<ExplainRow> rows = settings.rows;
  for (ExplainRow &row : rows)
    if (row.verdict == "applied" && !idle[row.key].empty()) {
      row.verdict = "no meaning here";
      row.why = idle[row.key];
    }
  return rows;
}

std::string config::explainSettings(const ResolvedSettings &settings,
                                    const ExplainStyle &style) {
  std::vector<ExplainRow> rows;
  for (const SettingField &field : settingFields()) {
    auto found = settings.origins.find(field.key);
    Origin origin = found == settings.origins.end() ? Origin() : found->second;
    ExplainRow row{field.key, settingToString(settings.values, field),
                   origin.describe(), "", field.meaning};
    std::string why = field.whyIdle ? field.whyIdle(settings.values) : "";
    if (!why.empty()) {
      row.verdict = "no meaning here";
      row.why = why;
    }
    rows.push_back(std::move(row));
  }
  return formatRows("settings", rows, style) +
         formatRows("keys and flags as given", rowsOfKeys(settings), style);
}
