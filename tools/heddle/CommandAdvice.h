//===- CommandAdvice.h - Words that compiled binaries take ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_COMMANDADVICE_H
#define HEDDLE_TOOLS_HEDDLE_COMMANDADVICE_H

#include "heddle/runtime/io/Flags.h"

namespace heddle::driver {

/// Whether a file is an ELF program, as compiled binaries are.
bool isProgram(const std::string &path);
/// As ./NAME where a shell would look for NAME elsewhere.
std::string asCommand(const std::string &path);

/// What to do with a word that `heddle` does not take: a verb or a flag of a
/// compiled binary, a verb by another name, or a model behind a flag.
std::optional<io::Advice> adviseOnDriver(const CLI::App &verb,
                                         const std::string &word,
                                         const std::string &value);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_COMMANDADVICE_H
