//===- RubyPattern.h - Patterns of tokenizer.json as PCRE2's ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENIZER_RUBYPATTERN_H
#define HEDDLE_RUNTIME_IO_TOKENIZER_RUBYPATTERN_H

#include <functional>
#include <string>

namespace heddle::io {

/// A pattern in the syntax of Ruby, as the package `tokenizers` reads it with
/// Oniguruma (doc/RE of Oniguruma 6.9), for PCRE2 with its options UTF, UCP and
/// MULTILINE. `isScript` tells names of Unicode's scripts. Throws a
/// std::runtime_error that says what has no counterpart: sets that intersect or
/// exclude inside of a set, and text segments.
std::string
fromRuby(const std::string &pattern,
         const std::function<bool(const std::string &name)> &isScript);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENIZER_RUBYPATTERN_H
