//===- SettingsMerge.h - Merges settings by precedence ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges the sources of settings. Flags, a strategy file and a ds_config.json
// may give the same setting. The Merger takes the value of the strongest
// source, and remembers where each value came from.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_SETTINGSMERGE_H
#define HEDDLE_LIB_IMPORT_SETTINGSMERGE_H

#include "heddle/Import/Settings.h"
#include "heddle/runtime/io/Json.h"

namespace heddle::config {

/// Collects the errors in a file, so that all of them are reported at once.
class Problems {
public:
  explicit Problems(std::vector<Diagnostic> &all) : all(all) {}
  /// Runs `step`. If it throws an error, keeps the error and returns it. Only
  /// one error is kept for each position in the file.
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

/// The settings while sources are merged. Sources are read from the strongest
/// to the weakest, and the first value that a setting gets remains.
class Merger {
public:
  Merger(ResolvedSettings &result, const Flags &flags)
      : result(result), problems(result.problems), flags(flags) {}

  /// Gives `key` a value. If a stronger source has given the setting a value
  /// already, that value remains. If values of the setting can be combined, the
  /// new value completes the stronger one. Records H0108 or H0114 for a word
  /// that the setting does not accept. For a value in a file, `origin.text` is
  /// its path in the file, such as `optimizer.type`.
  void give(const std::string &key, const SettingValue &value, Origin origin);
  /// Completes the value of a setting by the value of a weaker source. Does
  /// nothing if the setting's values cannot be combined.
  void fill(const std::string &key, const SettingValue &weaker);
  /// Records that the value at `path` of the file is "auto", which leaves the
  /// setting `key` to other sources.
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
  /// Whether the file leaves the setting to other sources ("auto") and no
  /// stronger source has given it.
  bool isOpen(const std::string &key) const;
  /// These functions give the defaults of Hugging Face's Trainer to settings
  /// that the file leaves open ("auto"). `fillMicroBatch` runs before the batch
  /// is resolved, and `fillOpen` after it.
  void fillMicroBatch();
  void fillOpen();
  /// Sets the verdict (such as `overridden`) that --explain-config prints for
  /// the value at `path` of the file.
  void mark(const std::string &path, const std::string &verdict,
            const std::string &why);
  /// Remembers the positions of a key and its value in the file.
  void notePlaces(const io::JsonMember &member);
  /// Sets the verdicts that --explain-config prints for values that another
  /// source overrode, and for "auto" values, which were replaced.
  void finishRows();
  /// Sets the verdicts that --explain-config prints for values that were
  /// rejected with an error.
  void markRefused();
  /// Returns the text of a flag, or nothing if the flag was not given.
  std::optional<std::string> flag(const std::string &name) const;

  ResolvedSettings &result;
  Problems problems;
  const Flags &flags;
  /// Whether a key that gives a batch size could not be read. The batch is then
  /// not resolved, since errors about it would mislead.
  bool isBatchUnsure = false;

private:
  /// If the file leaves a setting open ("auto"), and Hugging Face's Trainer has
  /// a default for it, gives the setting that default.
  void fillWithTrainers(const SettingField &field);

  /// The path of a value in the file, and the key of the setting that the value
  /// gives.
  struct Link {
    std::string path, key;
    bool isAuto;
  };
  std::vector<Link> links;
  /// Line and column of each key and value in the file, with the value's path.
  /// An error is matched by its position with the value that caused it.
  std::vector<std::pair<SourceLocation, std::string>> places;
};

/// Returns the origin of a value in a ds_config.json: its position in the file.
Origin fileOrigin(const io::JsonValue &value);
/// Whether the value is the string "auto".
bool isAuto(const io::JsonValue &value);

/// Merges flags. Throws H0114 for malformed ones.
void mergeFlags(Merger &merger);
/// Merges a strategy file: JSON with settings of the compilation. Its keys are
/// those of the attribute #dist.strategy.
void mergeStrategy(const SettingsFile &strategy, Merger &merger);
/// Merges a ds_config.json.
void mergeDsConfig(const SettingsFile &config, Merger &merger);
/// Sets the defaults that depend on the optimizer. Settings that a source has
/// given keep their values.
void mergeOptimizerDefaults(Merger &merger);
/// Chooses a dynamic loss scale if the precision is fp16 and no source gives
/// the scale.
void mergeLossScaleDefault(Merger &merger);
/// Merges --lr, --warmup-steps and --train-steps into the schedule that another
/// source gave. If none gave one, makes a schedule from the flags. Throws H0123
/// if the schedule has no parameter for one of these flags.
void mergeScheduleFlags(Merger &merger);

/// Chooses the batch, the micro-batch and the number of gradient accumulation
/// steps such that batch = micro_batch x accumulate x data ranks. Sizes that a
/// source gives are kept, and the others get defaults. Throws H0109 if that is
/// impossible.
void resolveBatch(Merger &merger);

/// Reports an error (H0110) for each setting that is out of range. The error
/// points at the place where the value was given.
void checkSettings(Merger &merger);

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_SETTINGSMERGE_H
