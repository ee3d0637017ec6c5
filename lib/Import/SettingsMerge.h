//===- SettingsMerge.h - Sources of settings, by rank -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_SETTINGSMERGE_H
#define HEDDLE_LIB_IMPORT_SETTINGSMERGE_H

#include "heddle/Import/Settings.h"
#include "heddle/runtime/io/Json.h"

namespace heddle::config {

/// Errors of a file that are reported together.
class Problems {
public:
  explicit Problems(std::vector<Diagnostic> &all) : all(all) {}
  /// Keeps what `step` throws, and says what it was. A place has one error.
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

/// Puts them into the order of their places.
void sortProblems(std::vector<Diagnostic> &problems);
/// Throws them all, in that order, when there are any.
void throwProblems(std::vector<Diagnostic> problems);

/// Settings while the sources are merged, from the strongest to the weakest:
/// the first to give a value wins.
class Merger {
public:
  Merger(ResolvedSettings &result, const Flags &flags)
      : result(result), problems(result.problems), flags(flags) {}

  /// Gives `key` a value; one that a stronger source has given it stays, and is
  /// filled up where the setting's values are combined. Keeps H0108 or H0114
  /// for a word that cannot be. The text of a file's origin is the path of its
  /// row.
  void give(const std::string &key, const SettingValue &value, Origin origin);
  /// Adds to a value that was given what it leaves to a weaker source.
  void fill(const std::string &key, const SettingValue &weaker);
  /// Says that the file leaves `key` to the other sources.
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
  /// Whether the file leaves `key` open, and no stronger source has given it.
  bool isOpen(const std::string &key) const;
  /// Gives what is left open the defaults of Hugging Face's Trainer; the rows
  /// of a micro-batch before, and the rest after the batch is resolved.
  void fillMicroBatch();
  void fillOpen();
  /// Changes the verdict of the row at `path`.
  void mark(const std::string &path, const std::string &verdict,
            const std::string &why);
  /// Remembers where a key of the file and its value are.
  void notePlaces(const io::JsonMember &member);
  /// Says in the rows of the file which values were overridden or filled.
  void finishRows();
  /// Says in the rows of the file what the problems refuse.
  void markRefused();
  /// The text of a flag, or nothing.
  std::optional<std::string> flag(const std::string &name) const;

  ResolvedSettings &result;
  Problems problems;
  const Flags &flags;
  /// A key that says a size of the batch could not be read.
  bool isBatchUnsure = false;

private:
  /// Gives a setting that is left open the Trainer's default, if it has one.
  void fillWithTrainers(const SettingField &field);

  /// A row of the file, and the setting it speaks of.
  struct Link {
    std::string path, key;
    bool isAuto;
  };
  std::vector<Link> links;
  /// Places in the file, and the paths of their rows.
  std::vector<std::pair<SourceLocation, std::string>> places;
};

/// Where a value of a ds_config.json comes from.
Origin fileOrigin(const io::JsonValue &value);
/// True for the string "auto".
bool isAuto(const io::JsonValue &value);

/// Flags; throws H0114 for what is not well formed.
void mergeFlags(Merger &merger);
/// A strategy as JSON, with the keys of the strategy attribute.
void mergeStrategy(const SettingsFile &strategy, Merger &merger);
/// A ds_config.json.
void mergeDsConfig(const SettingsFile &config, Merger &merger);
/// What an optimizer has another default for, where nobody gave it.
void mergeOptimizerDefaults(Merger &merger);
/// The flags --lr, --warmup-steps and --train-steps, in the schedule that the
/// other sources gave, or one of their own. Throws H0123 for a schedule that
/// has no such parameter.
void mergeScheduleFlags(Merger &merger);

/// Makes batch = micro_batch x accumulate x data ranks hold, with the default
/// for what nobody gave; throws H0109 when it cannot.
void resolveBatch(Merger &merger);

/// Finds H0110: numbers that are out of range, at their origin.
void checkSettings(Merger &merger);

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_SETTINGSMERGE_H
