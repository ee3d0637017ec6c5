//===- Lexer.cpp - Splits PTX into tokens ---------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recognizes words, numbers in all of PTX's notations, strings and punctuation,
// and skips comments.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Lexer.h"

#include <cstdlib>
#include <cstring>

namespace heddle::emulator {

static bool isLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '$' || c == '%';
}
static bool isDigit(char c) { return c >= '0' && c <= '9'; }
static bool isHex(char c) {
  return isDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

void Lexer::skipBlanks() {
  while (at < text.size()) {
    if (text[at] == '\n')
      ++line;
    if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
    } else if (text.substr(at, 2) == "/*") {
      size_t end = text.find("*/", at + 2);
      if (end == text.npos)
        throw PtxError(line, "a comment does not end");
      for (; at < end + 2; ++at)
        line += text[at] == '\n';
    } else if (text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r')) {
      ++at;
    } else {
      return;
    }
  }
}

/// Scans a float that is written as its bits: 0f or 0d, followed by hexadecimal
/// digits.
void Lexer::scanFloatBits(size_t digits) {
  std::string bits(text.substr(at + 2, digits));
  at += 2;
  size_t count = 0;
  while (count < digits && at < text.size() && isHex(text[at]))
    ++at, ++count;
  if (count != digits)
    fail("a float of bits has " + std::to_string(digits) + " digits");
  token.literal.isFloat = true;
  token.literal.bits = std::strtoull(bits.c_str(), nullptr, 16);
  token.literal.isSingle = digits == 8;
  if (digits == 8) {
    auto narrow = static_cast<uint32_t>(token.literal.bits);
    float value;
    std::memcpy(&value, &narrow, 4);
    double wide = value;
    // A token stores the value of a float literal as the bits of an f64. If an
    // f32 literal is a NaN, a conversion to f64 could change its bits. So put
    // the f32's bits unchanged into the low half of an f64 NaN.
    if (value == value)
      std::memcpy(&token.literal.bits, &wide, 8);
    else
      token.literal.bits = 0x7ff8000000000000u | narrow;
  }
}

void Lexer::scanNumber() {
  char kind = at + 1 < text.size() && text[at] == '0' ? text[at + 1] : 0;
  if (kind == 'f' || kind == 'F')
    return scanFloatBits(8);
  if (kind == 'd' || kind == 'D')
    return scanFloatBits(16);
  size_t start = at;
  bool isBinary = kind == 'b' || kind == 'B',
       isHexa = kind == 'x' || kind == 'X';
  if (isBinary || isHexa)
    at += 2;
  while (at < text.size() && (isHexa ? isHex(text[at]) : isDigit(text[at])))
    ++at;
  bool isFloat = false;
  if (!isHexa && !isBinary && at < text.size()) {
    if (text[at] == '.' && at + 1 < text.size() && isDigit(text[at + 1])) {
      isFloat = true;
      ++at;
      while (at < text.size() && isDigit(text[at]))
        ++at;
    }
    if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
      isFloat = true;
      ++at;
      if (at < text.size() && (text[at] == '+' || text[at] == '-'))
        ++at;
      while (at < text.size() && isDigit(text[at]))
        ++at;
    }
  }
  std::string digits(text.substr(start, at - start));
  token.literal = {};
  token.literal.isFloat = isFloat;
  if (isFloat) {
    double value = std::strtod(digits.c_str(), nullptr);
    std::memcpy(&token.literal.bits, &value, 8);
  } else {
    token.literal.bits = isBinary
                             ? std::strtoull(digits.c_str() + 2, nullptr, 2)
                             : std::strtoull(digits.c_str(), nullptr, 0);
  }
  if (at < text.size() && text[at] == 'U')
    ++at;
}

void Lexer::scan() {
  skipBlanks();
  token = {};
  token.line = line;
  if (at >= text.size())
    return;
  size_t start = at;
  if (isDigit(text[at])) {
    token.kind = Token::Number;
    scanNumber();
  } else if (text[at] == '"') {
    token.kind = Token::String;
    at = text.find('"', at + 1);
    if (at == text.npos)
      fail("a string does not end");
    ++at;
  } else if (isLetter(text[at]) || (text[at] == '.' && at + 1 < text.size() &&
                                    isLetter(text[at + 1]))) {
    token.kind = Token::Word;
    ++at;
    while (at < text.size()) {
      bool inside = isLetter(text[at]) || isDigit(text[at]);
      bool dot = text[at] == '.' && at + 1 < text.size() &&
                 (isLetter(text[at + 1]) || isDigit(text[at + 1]));
      if (text.substr(at, 2) == "::")
        at += 2;
      else if (inside || dot)
        ++at;
      else
        break;
    }
  } else {
    token.kind = Token::Sign;
    ++at;
  }
  token.text = text.substr(start, at - start);
}

Token Lexer::next() {
  Token result = token;
  scan();
  return result;
}

bool Lexer::take(std::string_view sign) {
  if (token.text != sign || token.kind == Token::String)
    return false;
  next();
  return true;
}

void Lexer::expect(std::string_view sign) {
  if (!take(sign))
    fail("expected '" + std::string(sign) + "', not '" +
         (token.kind == Token::End ? "the end" : std::string(token.text)) +
         "'");
}

std::string_view Lexer::word(const char *what) {
  if (token.kind != Token::Word)
    fail(std::string("expected ") + what + ", not '" + std::string(token.text) +
         "'");
  return next().text;
}

int64_t Lexer::integer(const char *what) {
  bool negative = take("-");
  if (token.kind != Token::Number || token.literal.isFloat)
    fail(std::string("expected ") + what + ", not '" + std::string(token.text) +
         "'");
  auto value = static_cast<int64_t>(next().literal.bits);
  return negative ? -value : value;
}

} // namespace heddle::emulator
