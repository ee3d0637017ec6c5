//===- WriteBinary.h - Writes runtime, plan and kernels ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The last step of the emit phase: appends plans and kernels to a copy of
// the prebuilt runtime, as sections of one ELF program.
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

/// Which of a binary's models: a draft guesses tokens for the main one.
enum class Model { Main, Draft };

/// What a binary holds of one model for one target: the plan, and the code of
/// its kernels.
struct Code {
  plan::Plan plan;
  std::string image;
  Model model = Model::Main;
};

/// Writes the program `output`: the prebuilt runtime at `runtimePath`, and for
/// each entry of `codes` a section with the plan as JSON and one with the code.
/// The entries of a model are for different targets, in order of preference.
/// Sets the plans' hashes. A file that is already at `output` is replaced only
/// when all is written. Returns an error, if there is one; never throws.
std::optional<Diagnostic> writeBinary(std::vector<Code> &codes,
                                      const std::string &runtimePath,
                                      const std::string &output);

/// Replaces the file `path` atomically, without waiting for the disk. Returns
/// an error, if there is one; never throws.
std::optional<Diagnostic> writeText(const std::string &path,
                                    const std::string &text);

} // namespace heddle::emit

#endif // HEDDLE_EMIT_WRITEBINARY_H
