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

/// Settings while the sources are merged, from the strongest to the weakest:
/// the first to give a value wins.
class Merger {
public:
  explicit Merger(ResolvedSettings &result) : result(result) {}

  /// Gives `key` a value unless a stronger source has given one. The text of a
  /// file's origin is the path of its row.
  template <typename T>
  void give(const std::string &key, T Settings::*member, T value,
            Origin origin) {
    if (origin.kind == Origin::Kind::File)
      links.push_back({origin.text, key, false});
    if (isGiven(key))
      return;
    result.values.*member = std::move(value);
    result.setOrigin(key, std::move(origin));
  }
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
  /// Says that the row at `path` changes nothing.
  void dismiss(const std::string &path, const std::string &why) {
    for (ExplainRow &row : result.rows)
      if (row.key == path) {
        row.verdict = "no meaning here";
        row.why = why;
      }
  }
  /// Says in the rows of the file which values were overridden or filled.
  void finishRows();

  ResolvedSettings &result;

private:
  /// A row of the file, and the setting it speaks of.
  struct Link {
    std::string path, key;
    bool isAuto;
  };
  std::vector<Link> links;
};

/// True for the string "auto".
bool isAuto(const io::JsonValue &value);

/// Flags; throws H0114 for what is not well formed.
void mergeFlags(const Flags &flags, Merger &merger);
/// A strategy as JSON, with the keys of the strategy attribute.
void mergeStrategy(const std::string &name, const std::string &text,
                   Merger &merger);
/// A ds_config.json.
void mergeDsConfig(const std::string &path, Merger &merger);
/// The sections `optimizer` and `scheduler` of a ds_config.json, whose keys
/// have been checked.
void mergeOptimizer(const io::JsonValue &root, Merger &merger);
void mergeScheduler(const io::JsonValue &root, Merger &merger);

/// Makes batch = micro_batch x accumulate x data ranks hold, with the default
/// for what nobody gave; throws H0109 when it cannot.
void resolveBatch(Merger &merger);

/// Throws H0114, H0110 or H0115 for values that are out of range or not
/// supported, naming their origin.
void checkSettings(const ResolvedSettings &settings);

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_SETTINGSMERGE_H
