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

/// What a target adds to a binary: a plan, and the code of its kernels.
struct Code {
  plan::Plan plan;
  std::string image;
};

/// Writes the program `output`: the prebuilt runtime at `runtimePath` with two
/// sections more for each target, the plan as JSON and the code. Fills in the
/// plans' hashes. The file is there whole or not at all; one that was there
/// before stays until then. Returns what went wrong, if something did; never
/// throws.
std::optional<Diagnostic> writeBinary(std::vector<Code> &codes,
                                      const std::string &runtimePath,
                                      const std::string &output);

/// Replaces the file `path`, atomically but without waiting for the disk.
/// Returns what went wrong, if something did; never throws.
std::optional<Diagnostic> writeText(const std::string &path,
                                    const std::string &text);

} // namespace heddle::emit

#endif // HEDDLE_EMIT_WRITEBINARY_H
