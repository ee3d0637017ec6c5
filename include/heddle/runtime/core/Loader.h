//===- Loader.h - What a compiled binary carries ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_LOADER_H
#define HEDDLE_RUNTIME_CORE_LOADER_H

#include "heddle/PlanFormat/Plan.h"

#include <optional>
#include <string>
#include <vector>

namespace heddle::rt {

/// What a compiled binary holds for a target.
struct Binary {
  plan::Plan plan;
  std::vector<char> kernels; ///< For Device::load.
};

/// Reads the plans and the kernels of the binary at `path`, for each target
/// that it was compiled for, and checks their hashes. Throws a UserError: H0381
/// when it is no compiled binary, H0382 when it was damaged, H0383 when its
/// plan is not one of this version.
std::vector<Binary> readTargets(const std::string &path);
/// The first of them.
Binary readBinary(const std::string &path);
/// The draft that guesses for the model of that target, if there is one. Throws
/// as readTargets does.
std::optional<Binary> readDraft(const std::string &path, size_t target = 0);

/// The same from the text of a plan; `origin` names it in errors.
plan::Plan parsePlan(const std::string &text, const std::string &origin);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_LOADER_H
