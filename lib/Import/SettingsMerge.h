//===- SettingsMerge.h - Merges settings by precedence ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flags, a strategy file and a ds_config.json may give the same setting. The
// Merger takes the value of the strongest source, and remembers where each
// value came from.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_SETTINGSMERGE_H
#define HEDDLE_LIB_IMPORT_SETTINGSMERGE_H

#include "heddle/Import/Settings.h"
#include "heddle/runtime/io/Json.h"

namespace heddle::config {

/// Collects errors of a file, so that all of them are reported at once.
class Problems {
public:
  explicit Problems(std::vector<Diagnostic> &all) : all(all) {}
  /// Runs `step` and keeps the error that it throws, which is also returned.
  /// Only one error is kept for each position in the file.
  template <typename Step> std::optional<Diagnostic> attempt(Step step) {
    try {
      step();
    } catch (const UserError &error) {
      add(error.diagnostic);
      return error.diagnostic;
    }
    return std::nullopt;
  }
  void add(const Diagnostic &problem);

private:
  std::vector<Diagnostic> &all;
};

/// Sorts problems by their position in the file.
void sortProblems(std::vector<Diagnostic> &problems);
/// Throws all problems, in order of position, if there are any.
void throwProblems(std::vector<Diagnostic> problems);

/// The settings while sources are merged. Sources come from the strongest to
/// the weakest, and the first value given wins.
class Merger {
public:
  Merger(ResolvedSettings &result, const Flags &flags)
      : result(result), problems(result.problems), flags(flags) {}

  /// Gives `key` a value. A value from a stronger source stays; it is only
  /// completed, if the setting's values can be combined. Records H0108 or H0114
  /// for an invalid word. For a file's value, `origin.text` is the path of its
  /// row.
  void give(const std::string &key, const SettingValue &value, Origin origin);
  /// Completes a value by what a weaker source says, if the setting's values
  /// can be combined.
  void fill(const std::string &key, const SettingValue &weaker);
  /// Records that the file leaves `key` to other sources ("auto").
  void leaveOpen(const std::string &path, const std::string &key) {
    links.push_back({path, key, true});
  }
  bool isGiven(const std::string &key) const {
    return result.origins.count(key) != 0;
  }
  const Origin *originOf(const std::string &key) const {
    auto found = result.origins.find(key);
    return found == result.origins.end() ? nullptr : &found->second;
  }
  /// Whether the file leaves `key` open and no stronger source has given it.
  bool isOpen(const std::string &key) const;
  /// `fillMicroBatch` and `fillOpen` give open settings the defaults of Hugging
  /// Face's Trainer. `fillMicroBatch` runs before the batch is resolved,
  /// `fillOpen` after it.
  void fillMicroBatch();
  void fillOpen();
  /// Changes the verdict of the explanation's row at `path`.
  void mark(const std::string &path, const std::string &verdict,
            const std::string &why);
  /// Remembers the positions of a key and its value in the file.
  void notePlaces(const io::JsonMember &member);
  /// Marks the rows of the file whose values were overridden or filled in.
  void finishRows();
  /// Marks the rows of the file that problems reject.
  void markRefused();
  /// The text of a flag, or nothing.
  std::optional<std::string> flag(const std::string &name) const;

  ResolvedSettings &result;
  Problems problems;
  const Flags &flags;
  /// A key that gives a batch size could not be read.
  bool isBatchUnsure = false;

private:
  /// Gives a setting that was left open the Trainer's default, if there is one.
  void fillWithTrainers(const SettingField &field);

  /// A row of the file and the setting that it gives.
  struct Link {
    std::string path, key;
    bool isAuto;
  };
  std::vector<Link> links;
  /// Positions in the file, with the paths of their rows.
  std::vector<std::pair<SourceLocation, std::string>> places;
};

/// The origin of a value in a ds_config.json.
Origin fileOrigin(const io::JsonValue &value);
/// Whether the value is the string "auto".
bool isAuto(const io::JsonValue &value);

/// Merges flags. Throws H0114 for malformed ones.
void mergeFlags(Merger &merger);
/// Merges a strategy file: JSON with the keys of the strategy attribute.
void mergeStrategy(const SettingsFile &strategy, Merger &merger);
/// Merges a ds_config.json.
void mergeDsConfig(const SettingsFile &config, Merger &merger);
/// Sets the defaults that depend on the optimizer, for settings that no source
/// has given.
void mergeOptimizerDefaults(Merger &merger);
/// Merges --lr, --warmup-steps and --train-steps into the schedule that other
/// sources gave, or into a new one. Throws H0123 if the schedule has no such
/// parameter.
void mergeScheduleFlags(Merger &merger);

/// Makes batch = micro_batch x accumulate x data ranks, with defaults for sizes
/// that no source has given. Throws H0109 if that is impossible.
void resolveBatch(Merger &merger);

/// Reports settings that are out of range (H0110), at their origin.
void checkSettings(Merger &merger);

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_SETTINGSMERGE_H
