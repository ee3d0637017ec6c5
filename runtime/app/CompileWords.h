//===- CompileWords.h - Advice on misplaced words ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Advice for words on a binary's command line that belong elsewhere: flags of
// `heddle compile`, verbs of `heddle`, or arguments of a flag.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_COMPILEWORDS_H
#define HEDDLE_RUNTIME_APP_COMPILEWORDS_H

#include "heddle/runtime/io/Flags.h"

namespace heddle::rt {

/// Returns advice on a word that no verb of the binary accepts. A flag of
/// `heddle compile` has a value that is fixed in the binary.
std::optional<io::Advice> adviseOnBinary(const CLI::App &verb,
                                         const std::string &word,
                                         const std::string &value);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_COMPILEWORDS_H
