//===- CompileWords.h - Words that heddle compile takes ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_COMPILEWORDS_H
#define HEDDLE_RUNTIME_APP_COMPILEWORDS_H

#include "heddle/runtime/io/Flags.h"

namespace heddle::rt {

/// What to do with a word that no verb of a binary takes: a flag of
/// `heddle compile`, whose value is fixed in the binary, a verb of `heddle`, or
/// what belongs behind a flag.
std::optional<io::Advice> adviseOnBinary(const CLI::App &verb,
                                         const std::string &word,
                                         const std::string &value);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_COMPILEWORDS_H
