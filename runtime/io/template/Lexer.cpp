//===- Lexer.cpp - Tokens of chat templates -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The lexer: tags, raw blocks, and Jinja's rules for white space around tags.
//
//===----------------------------------------------------------------------===//

#include "Lexer.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"
#include <cctype>
#include <cstdlib>
#include <cstring>

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
  TemplatePosition place() const { return {line, int(at - lineBegin) + 1}; }
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
  void stripBefore(std::string &part, char sign, bool isStatement) const;
  void data();
  size_t rawAt(size_t place, const std::string &word) const;
  void raw();
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

/// Strips white space at the end of `part`, the text before a tag. If the tag
/// begins with the sign `-`, as in `{%-`, all white space is stripped. With the
/// sign `+`, none is stripped. Without a sign, blanks from the beginning of the
/// line to a statement are stripped.
void Lexer::stripBefore(std::string &part, char sign, bool isStatement) const {
  if (sign == '-') {
    size_t end = part.find_last_not_of(" \t\n\v\f");
    part.resize(end == std::string::npos ? 0 : end + 1);
  } else if (sign != '+' && isStatement) {
    size_t begin = part.rfind('\n') + 1; // 0 if there is no newline.
    if ((begin > 0 || isLineStart) &&
        part.find_first_not_of(" \t\v\f", begin) == std::string::npos)
      part.resize(begin);
  }
}

/// Reads the text up to the next tag, and strips white space at its end.
void Lexer::data() {
  size_t open = at;
  while (open < text.size() &&
         !(text[open] == '{' && open + 1 < text.size() &&
           (text[open + 1] == '{' || text[open + 1] == '%' ||
            text[open + 1] == '#')))
    ++open;
  std::string part = text.substr(at, open - at);
  if (open < text.size())
    stripBefore(part, open + 2 < text.size() ? text[open + 2] : ' ',
                text[open + 1] != '{');
  if (!part.empty())
    add(Kind::Data, part);
  skip(open - at);
}

/// Ends a tag. If `strips`, skips the white space after the tag. Otherwise
/// skips only a line end directly after a statement.
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
  size_t end = at;
  std::string digits;
  auto take = [&](const char *allowed) {
    size_t before = digits.size();
    for (; end < text.size(); ++end)
      if (text[end] && std::strchr(allowed, text[end]))
        digits += text[end];
      else if (text[end] != '_' || digits.size() == before)
        break;
    return digits.size() > before;
  };
  auto isOne = [&](size_t place, const char *signs) {
    return place < text.size() && text[place] &&
           std::strchr(signs, text[place]);
  };
  constexpr const char *decimal = "0123456789";
  constexpr size_t longestWhole = 18, longest = 400;
  Kind kind = Kind::Integer;
  int base = !isOne(at, "0")       ? 10
             : isOne(at + 1, "xX") ? 16
             : isOne(at + 1, "oO") ? 8
             : isOne(at + 1, "bB") ? 2
                                   : 10;
  if (base != 10) {
    end += 2;
    take("0123456789abcdefABCDEF");
    char *rest = nullptr;
    int64_t number =
        digits.size() > 15 ? 0 : std::strtoll(digits.c_str(), &rest, base);
    if (!rest || *rest || digits.empty())
      refuse("a number is too long, or has other digits");
    digits = std::to_string(number);
  } else {
    take(decimal);
    if (isOne(end, ".") && isOne(end + 1, decimal)) {
      kind = Kind::Float;
      digits += text[end++];
      take(decimal);
    }
    size_t sign = isOne(end + 1, "-+");
    if (isOne(end, "eE") && isOne(end + 1 + sign, decimal)) {
      kind = Kind::Float;
      digits += text.substr(end, 1 + sign);
      end += 1 + sign;
      take(decimal);
    }
    if (digits.size() > (kind == Kind::Float ? longest : longestWhole))
      refuse("a number is too long");
  }
  add(kind, digits);
  skip(end - at);
}

/// Reads one token inside of a tag.
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

/// Returns the length of the tag `{% word %}` at a position; 0 if it is another
/// tag.
size_t Lexer::rawAt(size_t place, const std::string &word) const {
  size_t end = place + 2;
  auto skipBlanks = [&] {
    while (end < text.size() && isspace(static_cast<unsigned char>(text[end])))
      ++end;
  };
  auto skipSign = [&] {
    end += end < text.size() && (text[end] == '-' || text[end] == '+');
  };
  if (text.compare(place, 2, "{%") != 0)
    return 0;
  skipSign();
  skipBlanks();
  if (text.compare(end, word.size(), word) != 0)
    return 0;
  end += word.size();
  skipBlanks();
  if (word != "raw" || text.compare(end, 1, "-") == 0)
    skipSign();
  return text.compare(end, 2, "%}") == 0 ? end + 2 - place : 0;
}

/// Reads the text between `{% raw %}` and `{% endraw %}` as data.
void Lexer::raw() {
  size_t length = rawAt(at, "raw"), begin = at + length, close = begin;
  auto signBefore = [&](size_t end) { return text[end - 3]; };
  while (close < text.size() && !rawAt(close, "endraw"))
    ++close;
  if (close >= text.size())
    refuse("'endraw' is missing");
  closeTag(length, signBefore(begin) == '-', /*isStatement=*/false);
  std::string part =
      text.substr(std::min(at, close), close - std::min(at, close));
  stripBefore(part, text[close + 2], /*isStatement=*/true);
  if (!part.empty())
    add(Kind::Data, part);
  skip(close - std::min(at, close));
  length = rawAt(at, "endraw");
  closeTag(length, signBefore(at + length) == '-',
           signBefore(at + length) != '+');
}

/// Reads a tag up to `close`.
void Lexer::tag(const std::string &close, Kind begin, Kind end) {
  add(begin, "");
  skip(2);
  if (at < text.size() && (text[at] == '-' || text[at] == '+'))
    skip(1);
  int depth = 0; // Nesting of brackets: `}}` may end a dictionary.
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
    } else if (rawAt(at, "raw")) {
      raw();
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
