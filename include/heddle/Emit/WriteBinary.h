//===- WriteBinary.h - Runtime, plan and kernels as one ELF file ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMIT_WRITEBINARY_H
#define HEDDLE_EMIT_WRITEBINARY_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/io/Diagnostic.h"
#include <optional>
#include <string>
#include <vector>

namespace heddle::emit {

/// Which of a binary's models: a draft guesses tokens for the other one.
enum class Model { Main, Draft };

/// What a model adds to a binary for a target: a plan, and the code of its
/// kernels.
struct Code {
  plan::Plan plan;
  std::string image;
  Model model = Model::Main;
};

/// Writes the program `output`: the prebuilt runtime at `runtimePath` with two
/// sections more for each of the codes, the plan as JSON and the code. Those of
/// a model are for different targets, in their order. Fills in the plans'
/// hashes. The file is there whole or not at all; one that was there before
/// stays until then. Returns what went wrong, if something did; never throws.
std::optional<Diagnostic> writeBinary(std::vector<Code> &codes,
                                      const std::string &runtimePath,
                                      const std::string &output);

/// Replaces the file `path`, atomically but without waiting for the disk.
/// Returns what went wrong, if something did; never throws.
std::optional<Diagnostic> writeText(const std::string &path,
                                    const std::string &text);

} // namespace heddle::emit

#endif // HEDDLE_EMIT_WRITEBINARY_H
