//===- OffloadDirectories.h - Directories of offload files ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses the value of `--swap-dir`, which names the directories of offload
// files: one for all states, or one for each role of states (parameters,
// gradients, optimizer states, activations). The compiler checks the value, and
// the runtime opens files in these directories.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_OFFLOADDIRECTORIES_H
#define HEDDLE_RUNTIME_IO_OFFLOADDIRECTORIES_H

#include "heddle/PlanFormat/Memory.h"
#include "heddle/runtime/io/ValueRange.h"

#include <algorithm>
#include <optional>
#include <string>

namespace heddle::io {

/// Normalizes a directory: `/a//b/./c/` becomes `/a/b/c`. A `..` stays, since
/// it may follow a symbolic link.
std::string plainDirectory(const std::string &directory);

/// The directories of offload files: one for all roles of states (parameters,
/// gradients, ...), or others for some roles. For example,
/// `/mnt/nvme0,parameters=/mnt/nvme1` names two directories.
struct OffloadDirectories {
  /// The directory for roles of states that have no entry in `own`; empty if
  /// the user gave none.
  std::string all;
  /// For each role of states (optimizer states, parameters, gradients,
  /// activations), its own directory; empty if the role uses `all`.
  plan::PerFile<std::string> own;

  /// Parses the value of `--swap-dir`; returns nullopt if it is malformed. The
  /// empty string is valid and names no directory.
  static std::optional<OffloadDirectories> parse(const std::string &text);
  /// Returns the normalized text, which `parse` reads as the same directories.
  std::string text() const;

  const std::string &of(plan::FileRole role) const {
    return own[role].empty() ? all : own[role];
  }
  /// Whether the states of all roles (see `own`) are offloaded to the directory
  /// `all`.
  bool isOne() const {
    return std::all_of(own.values.begin(), own.values.end(),
                       [](const auto &each) { return each.empty(); });
  }
  /// Overrides entries with those of `stronger`. If `stronger.all` is given, it
  /// replaces the directories of all roles of states.
  void take(const OffloadDirectories &stronger);
};

/// The accepted values of flags and configuration keys that
/// OffloadDirectories::parse reads, without the empty string.
ValueRange swapDirectoriesRange();

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_OFFLOADDIRECTORIES_H
