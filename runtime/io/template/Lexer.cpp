//===- Lexer.cpp - Tokens of templates ------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lexer.h"
#include "../tokenizer/Unicode.h"
#include <cctype>

using namespace heddle::io;
using namespace heddle::io::jinja;

namespace {
class Lexer {
public:
  explicit Lexer(const std::string &source) {
    for (size_t i = 0; i < source.size(); ++i)
      if (source[i] != '\r')
        text += source[i];
      else if (i + 1 == source.size() || source[i + 1] != '\n')
        text += '\n';
    if (!text.empty() && text.back() == '\n')
      text.pop_back();
  }
  std::vector<Token> run();

private:
  using Kind = Token::Kind;
  [[noreturn]] void refuse(const std::string &what) const {
    throw TemplateError{what, place()};
  }
  Place place() const { return {line, int(at - lineBegin) + 1}; }
  bool has(const std::string &part) const {
    return text.compare(at, part.size(), part) == 0;
  }
  void add(Kind kind, const std::string &part) {
    tokens.push_back({kind, part, place()});
  }
  void skip(size_t count) {
    for (; count > 0; --count)
      if (text[at++] == '\n') {
        ++line;
        lineBegin = at;
      }
  }
  void data();
  void tag(const std::string &close, Kind begin, Kind end);
  void closeTag(size_t length, bool strips, bool isStatement);
  void one();
  void string(char quote);
  void number();

  std::string text;
  size_t at = 0;
  size_t lineBegin = 0;
  int line = 1;
  bool isLineStart = true;
  std::vector<Token> tokens;
};
} // namespace

/// Takes the text up to the next tag, and white space from its end.
void Lexer::data() {
  size_t open = at;
  while (open < text.size() &&
         !(text[open] == '{' && open + 1 < text.size() &&
           (text[open + 1] == '{' || text[open + 1] == '%' ||
            text[open + 1] == '#')))
    ++open;
  std::string part = text.substr(at, open - at);
  if (open < text.size()) {
    char sign = open + 2 < text.size() ? text[open + 2] : ' ';
    if (sign == '-') {
      size_t end = part.find_last_not_of(" \t\n\v\f");
      part.resize(end == std::string::npos ? 0 : end + 1);
    } else if (sign != '+' && text[open + 1] != '{') {
      size_t begin = part.rfind('\n') + 1; // 0 where there is none.
      if ((begin > 0 || isLineStart) &&
          part.find_first_not_of(" \t\v\f", begin) == std::string::npos)
        part.resize(begin);
    }
  }
  if (!part.empty())
    add(Kind::Data, part);
  skip(open - at);
}

/// Ends a tag, and takes white space behind it.
void Lexer::closeTag(size_t length, bool strips, bool isStatement) {
  skip(length);
  isLineStart = false;
  if (strips) {
    while (at < text.size() && isspace(static_cast<unsigned char>(text[at]))) {
      isLineStart = text[at] == '\n';
      skip(1);
    }
  } else if (isStatement && at < text.size() && text[at] == '\n') {
    skip(1);
    isLineStart = true;
  }
}

void Lexer::string(char quote) {
  std::string value;
  size_t next = at + 1;
  for (; next < text.size() && text[next] != quote; ++next) {
    if (text[next] != '\\' || next + 1 == text.size()) {
      value += text[next];
      continue;
    }
    char c = text[++next];
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 0;
    std::string code = text.substr(next + 1, digits);
    if (digits && code.size() == digits &&
        code.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos) {
      unicode::append(value, std::stoul(code, nullptr, 16));
      next += digits;
    } else if (c == 'n' || c == 't' || c == 'r') {
      value += c == 'n' ? '\n' : c == 't' ? '\t' : '\r';
    } else {
      if (c != '\\' && c != '\'' && c != '"')
        value += '\\';
      value += c;
    }
  }
  if (next >= text.size())
    refuse("a text is not ended");
  add(Kind::String, value);
  skip(next + 1 - at);
}

void Lexer::number() {
  auto isDigit = [&](size_t place) {
    return place < text.size() &&
           isdigit(static_cast<unsigned char>(text[place]));
  };
  size_t end = at;
  auto digits = [&] {
    while (isDigit(end))
      ++end;
  };
  digits();
  Kind kind = Kind::Integer;
  if (end < text.size() && text[end] == '.' && isDigit(end + 1)) {
    kind = Kind::Float;
    ++end;
    digits();
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    bool isSigned =
        end + 1 < text.size() && (text[end + 1] == '-' || text[end + 1] == '+');
    if (isDigit(end + 1 + isSigned)) {
      kind = Kind::Float;
      end += 1 + isSigned;
      digits();
    }
  }
  constexpr size_t longest = 18;
  if (end - at > longest)
    refuse("a number is too long");
  add(kind, text.substr(at, end - at));
  skip(end - at);
}

/// Takes a token inside of a tag.
void Lexer::one() {
  auto c = static_cast<unsigned char>(text[at]);
  if (isspace(c))
    return skip(1);
  if (c == '\'' || c == '"')
    return string(static_cast<char>(c));
  if (isdigit(c))
    return number();
  if (isalpha(c) || c == '_') {
    size_t end = at;
    while (end < text.size() &&
           (isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
      ++end;
    add(Kind::Name, text.substr(at, end - at));
    return skip(end - at);
  }
  for (const char *sign :
       {"//", "**", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "(",
        ")",  "[",  "]",  "{",  "}",  ".",  ",", ":", "|", "<", ">", "="})
    if (has(sign)) {
      add(Kind::Operator, sign);
      return skip(std::string(sign).size());
    }
  refuse(std::string("'") + static_cast<char>(c) + "' is not expected");
}

/// Takes a tag that begins here, to `close`.
void Lexer::tag(const std::string &close, Kind begin, Kind end) {
  add(begin, "");
  skip(2);
  if (at < text.size() && (text[at] == '-' || text[at] == '+'))
    skip(1);
  int depth = 0; // Of brackets: `}}` may end a dictionary.
  while (at < text.size()) {
    bool strips = has("-" + close);
    if (depth == 0 && (strips || has(close) || has("+" + close))) {
      size_t length = close.size() + (has(close) ? 0 : 1);
      bool trims = end == Kind::StatementEnd && !has("+" + close);
      add(end, "");
      return closeTag(length, strips, trims);
    }
    depth += text[at] == '{' || text[at] == '(' || text[at] == '[';
    depth -= text[at] == '}' || text[at] == ')' || text[at] == ']';
    one();
  }
  refuse("a tag is not ended");
}

std::vector<Token> Lexer::run() {
  while (at < text.size()) {
    data();
    if (at >= text.size())
      break;
    if (text[at + 1] == '{') {
      tag("}}", Kind::ExpressionBegin, Kind::ExpressionEnd);
    } else if (text[at + 1] == '%') {
      tag("%}", Kind::StatementBegin, Kind::StatementEnd);
    } else {
      size_t close = text.find("#}", at + 2);
      if (close == std::string::npos)
        refuse("a comment is not ended");
      bool strips = text[close - 1] == '-' && close > at + 2;
      skip(close - at);
      closeTag(2, strips, /*isStatement=*/true);
    }
  }
  add(Kind::End, "");
  return std::move(tokens);
}

std::vector<Token> jinja::tokenize(const std::string &source) {
  return Lexer(source).run();
}
