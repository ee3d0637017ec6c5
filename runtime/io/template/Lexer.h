//===- Lexer.h - Tokens of chat templates -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits a template into tokens for the parser: text, tags, names, operators
// and literals.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TEMPLATE_LEXER_H
#define HEDDLE_RUNTIME_IO_TEMPLATE_LEXER_H

#include "Value.h"

namespace heddle::io::jinja {

struct Token {
  enum class Kind {
    Data,            ///< Text between tags.
    ExpressionBegin, ///< `{{`
    ExpressionEnd,
    StatementBegin, ///< `{%`
    StatementEnd,
    Name,
    String,
    Integer,
    Float,
    Operator,
    End
  };
  Kind kind;
  std::string text; ///< For a string, its value.
  TemplatePosition place;
};

/// Splits a template into tokens. Strips white space where tags ask for it.
/// Always strips the white space between the beginning of a line and a
/// statement, and the line end after a statement. Throws TemplateError.
std::vector<Token> tokenize(const std::string &source);

} // namespace heddle::io::jinja

#endif // HEDDLE_RUNTIME_IO_TEMPLATE_LEXER_H
