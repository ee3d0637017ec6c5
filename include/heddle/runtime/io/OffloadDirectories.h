//===- OffloadDirectories.h - Where swap files are -----------------*- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// The text that stands for a directory however it is written: `/a//b/./c/` is
/// `/a/b/c`. A `..` stays, since it may follow a link.
std::string plainDirectory(const std::string &directory);

/// The directories of swap files, as users and plans write them: one for all,
/// or for roles their own, `/mnt/nvme0,parameters=/mnt/nvme1`.
struct OffloadDirectories {
  std::string all; ///< Of roles without their own; empty: none was given.
  plan::PerFile<std::string> own; ///< Empty: as `all`.

  /// Nothing for what is no such text. The empty one names none.
  static std::optional<OffloadDirectories> parse(const std::string &text);
  /// What `parse` reads as directories that are the same for each role.
  std::string text() const;

  const std::string &of(plan::FileRole role) const {
    return own[role].empty() ? all : own[role];
  }
  /// Whether no role has one of its own.
  bool isOne() const {
    return std::all_of(own.values.begin(), own.values.end(),
                       [](const auto &each) { return each.empty(); });
  }
  /// Takes what the other one names; a directory for all is for every role.
  void take(const OffloadDirectories &stronger);
};

/// Texts that name a directory or more.
ValueRange swapDirectoriesRange();

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_OFFLOADDIRECTORIES_H
