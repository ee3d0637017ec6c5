//===- RubyPattern.h - Ruby patterns to PCRE2's -----------------*- C++ -*-===//
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

/// Translates a pattern in Ruby's syntax, as the package `tokenizers` uses it
/// with Oniguruma (doc/RE of Oniguruma 6.9), for PCRE2 with the options UTF,
/// UCP and MULTILINE. `isScript` recognizes the names of Unicode scripts.
/// Throws a std::runtime_error for what has no equivalent: intersections or
/// negations of sets inside of sets, and text segments.
std::string
fromRuby(const std::string &pattern,
         const std::function<bool(const std::string &name)> &isScript);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENIZER_RUBYPATTERN_H
