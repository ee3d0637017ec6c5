//===- CommandAdvice.h - Advice on misplaced verbs and flags ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds out what the user wanted if `heddle` does not know a word of the
// command line. Often the word is a verb or flag of a compiled binary.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_COMMANDADVICE_H
#define HEDDLE_TOOLS_HEDDLE_COMMANDADVICE_H

#include "heddle/runtime/io/Flags.h"

namespace heddle::driver {

/// Whether a file is an ELF program, as compiled binaries are.
bool isProgram(const std::string &path);
/// Returns `path` as a word for a shell. A name without a directory gets a
/// prefix ./, since a shell would search it in PATH.
std::string asCommand(const std::string &path);

/// Returns advice on a word of the command line that `heddle` does not know.
/// The word may be a verb or a flag of a compiled binary, another tool's name
/// for a verb or a flag, or an output file without -o. An example of another
/// tool's flag is --model: the user must write `heddle compile MODEL`.
std::optional<io::Advice> adviseOnDriver(const CLI::App &verb,
                                         const std::string &word,
                                         const std::string &value);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_COMMANDADVICE_H
