//===- Lexer.h - Splits PTX into tokens -------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Used by Parser.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_LEXER_H
#define HEDDLE_EMULATOR_PTX_LEXER_H

#include "emulator/ptx/Syntax.h"

namespace heddle::emulator {

struct Token {
  enum Kind { End, Word, Number, String, Sign };

  Kind kind = End;
  std::string_view text;
  Literal literal; ///< The value, if the token is a number.
  int64_t line = 0;
};

/// Splits text into tokens, with one token of lookahead.
class Lexer {
public:
  explicit Lexer(std::string_view text) : text(text) { next(); }

  const Token &peek() const { return token; }
  /// Returns the current token, and reads the next one.
  Token next();
  /// Skips the current token if it is `sign`; returns whether it was.
  bool take(std::string_view sign);
  void expect(std::string_view sign);
  std::string_view word(const char *what);
  int64_t integer(const char *what);
  [[noreturn]] void fail(const std::string &message) const {
    throw PtxError(token.line, message);
  }

private:
  void skipBlanks();
  void scan();
  void scanNumber();
  void scanFloatBits(size_t digits);

  std::string_view text;
  size_t at = 0;
  int64_t line = 1;
  Token token;
};

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_LEXER_H
