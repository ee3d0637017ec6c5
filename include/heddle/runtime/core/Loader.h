//===- Loader.h - Reads a compiled binary -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a compiled binary: its plans and kernels.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_LOADER_H
#define HEDDLE_RUNTIME_CORE_LOADER_H

#include "heddle/PlanFormat/Plan.h"

#include <optional>
#include <string>
#include <vector>

namespace heddle::rt {

/// The plan and the kernels of a compiled binary for one target.
struct Binary {
  plan::Plan plan;
  /// The section with the kernels, which Device::load takes.
  std::vector<char> kernels;
};

/// Reads the plans and kernels of the binary at `path` for each target that it
/// was compiled for, and checks their hashes. Throws a UserError: H0381 when
/// the file is no compiled binary, H0382 when it is damaged, H0383 when its
/// plan has another version.
std::vector<Binary> readTargets(const std::string &path);
/// Reads the plan and kernels for the first target (a kind of CPU or GPU) of
/// the binary at `path`. Throws as readTargets does.
Binary readBinary(const std::string &path);
/// The draft model for speculative decoding, for target number `target`;
/// nullopt if the binary has none. Throws as readTargets does.
std::optional<Binary> readDraft(const std::string &path, size_t target = 0);

/// Parses the text of a plan; `origin` names it in errors.
plan::Plan parsePlan(const std::string &text, const std::string &origin);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_LOADER_H
