//===- Regex.h - Regular expressions of tokenizers --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Regular expressions of tokenizer.json, translated from Ruby's syntax and
// matched by PCRE2.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENIZER_REGEX_H
#define HEDDLE_RUNTIME_IO_TOKENIZER_REGEX_H

#include "heddle/runtime/io/Json.h"

namespace heddle::io {

/// A range of bytes of a text.
struct Span {
  size_t begin, end;
  bool isMatch; ///< Matches the pattern; false: between two matches.
};

/// A regular expression in Ruby's syntax, matched by PCRE2.
class Regex {
public:
  /// Throws H0351 if the pattern cannot be compiled. `at` is the pattern's
  /// position in tokenizer.json, which the error names.
  Regex(const std::string &pattern, const JsonValue &at);
  /// Returns an expression that matches exactly `text`.
  static Regex literal(const std::string &text);
  /// Divides `text` into matches and the ranges between them. A byte that is
  /// invalid UTF-8 is matched as if it were the symbol `^`.
  std::vector<Span> spans(const std::string &text) const;
  /// Returns the text with `content` in place of each match.
  std::string replace(const std::string &text,
                      const std::string &content) const;

private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code(std::move(code)) {}
  std::shared_ptr<const Code> code;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENIZER_REGEX_H
