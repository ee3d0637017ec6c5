//===- Regex.h - Regular expressions of tokenizers --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENIZER_REGEX_H
#define HEDDLE_RUNTIME_IO_TOKENIZER_REGEX_H

#include "heddle/runtime/io/Json.h"

namespace heddle::io {

/// A part of a text, in bytes.
struct Span {
  size_t begin, end;
  bool isMatch; ///< Of a pattern; else it lies between two matches.
};

/// A regular expression in the syntax of Ruby, which PCRE2 matches.
class Regex {
public:
  /// `at` is where the pattern stands: H0351 when it cannot be compiled.
  Regex(const std::string &pattern, const JsonValue &at);
  /// Matches the text itself.
  static Regex literal(const std::string &text);
  /// The matches in `text` and what lies between; together they are the whole
  /// text. A byte that is no UTF-8 is matched as a symbol.
  std::vector<Span> spans(const std::string &text) const;
  /// The text with `content` in place of each match.
  std::string replace(const std::string &text,
                      const std::string &content) const;

private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code(std::move(code)) {}
  std::shared_ptr<const Code> code;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENIZER_REGEX_H
