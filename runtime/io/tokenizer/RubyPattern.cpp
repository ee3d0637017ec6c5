//===- RubyPattern.cpp - Patterns of tokenizer.json as PCRE2's ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RubyPattern.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

using namespace heddle;

/// Members of a set that PCRE2 calls otherwise or has no name for; also those
/// of POSIX brackets.
static constexpr std::pair<const char *, const char *> properties[] = {
    {"word", "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"},
    {"alnum", "\\p{Alphabetic}\\p{Nd}"},
    {"alpha", "\\p{Alphabetic}"},
    {"upper", "\\p{Uppercase}"},
    {"lower", "\\p{Lowercase}"},
    {"space", "\\p{White_Space}"},
    {"digit", "\\p{Nd}"},
    {"xdigit", "0-9a-fA-F"},
    {"blank", "\\p{Zs}\\t"},
    {"cntrl", "\\p{Cc}"},
    {"punct", "\\p{P}"},
    {"graph", "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}"},
    {"print", "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}\\p{Zs}"},
    {"letter", "\\p{L}"},
    {"mark", "\\p{M}"},
    {"number", "\\p{N}"},
    {"punctuation", "\\p{P}"},
    {"symbol", "\\p{S}"},
    {"separator", "\\p{Z}"},
    {"ascii", "\\x{0}-\\x{7f}"}};

static const char *propertyOf(std::string name) {
  for (char &c : name)
    c = char(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  for (auto [known, members] : properties)
    if (name == known)
      return members;
  return nullptr;
}

namespace {

class Translation {
public:
  Translation(const std::string &pattern,
              const std::function<bool(const std::string &)> &isScript)
      : in(pattern), isScript(isScript) {}

  std::string run() {
    while (at < in.size())
      next();
    return out;
  }

private:
  bool comes(const char *text) const {
    return in.compare(at, strlen(text), text) == 0;
  }
  /// Hands so many characters on as they are.
  void copy(size_t count = 1) {
    out += in.substr(at, count);
    at = std::min(in.size(), at + count);
  }
  [[noreturn]] static void refuse(const std::string &what) {
    throw std::runtime_error(what + " has no counterpart in PCRE2");
  }

  void next() {
    switch (in[at]) {
    case '\\':
      atom = out.size();
      return escape();
    case '[':
      atom = out.size();
      ++at;
      out += '[';
      if (at < in.size() && in[at] == '^')
        copy();
      set();
      out += ']';
      return;
    case '(':
      open.push_back(out.size());
      return group();
    case ')':
      if (!open.empty()) {
        atom = open.back();
        open.pop_back();
      }
      return copy();
    case '{':
      return interval();
    case '?':
    case '*':
    case '+':
      return copy();
    default:
      atom = out.size();
      do
        copy(); // With the bytes that belong to the character.
      while (at < in.size() && (static_cast<uint8_t>(in[at]) & 0xC0) == 0x80);
    }
  }

  /// What begins a group; `m` makes a dot match a newline.
  void group() {
    if (comes("(?#")) {
      open.pop_back();
      size_t end = std::min(in.find(')', at), in.size() - 1);
      at = end + 1;
      return;
    }
    if (comes("(?~"))
      refuse("(?~ ...)");
    bool hasFlags = comes("(?") && at + 2 < in.size() &&
                    std::strchr("imx-", in[at + 2]);
    copy();
    if (!hasFlags)
      return;
    copy();
    for (; at < in.size() && std::strchr("imx-", in[at]); ++at)
      out += in[at] == 'm' ? 's' : in[at];
  }

  /// `{n,m}`, behind which `+` and, without a comma, `?` repeat the whole.
  void interval() {
    size_t end = in.find('}', at);
    std::string inner =
        end == std::string::npos ? "" : in.substr(at + 1, end - at - 1);
    bool isInterval =
        !inner.empty() && inner != "," &&
        inner.find_first_not_of("0123456789,") == std::string::npos &&
        std::count(inner.begin(), inner.end(), ',') <= 1;
    if (!isInterval) {
      atom = out.size();
      out += '\\';
      return copy();
    }
    out += (inner[0] == ',' ? "{0" : "{") + inner + "}";
    at = end + 1;
    bool repeats = at < in.size() &&
                   (in[at] == '+' ||
                    (in[at] == '?' && inner.find(',') == std::string::npos));
    if (repeats) {
      out.insert(atom, "(?:");
      out += ')';
    }
  }

  /// Behind a backslash, outside of sets.
  void escape() {
    // Oniguruma has these numbers of Latin-1 here, and not in sets.
    static const std::string word =
        propertyOf("word") + std::string("\\xB2\\xB3\\xB9\\xBC-\\xBE");
    switch (at + 1 < in.size() ? in[at + 1] : 0) {
    case 'w':
      return give("[" + word + "]");
    case 'W':
      return give("[^" + word + "]");
    case 'b':
      return give("(?:(?<=[" + word + "])(?![" + word + "])|(?<![" + word +
                  "])(?=[" + word + "]))");
    case 'B':
      return give("(?:(?<=[" + word + "])(?=[" + word + "])|(?<![" + word +
                  "])(?![" + word + "]))");
    case 'h':
      return give("[0-9a-fA-F]");
    case 'H':
      return give("[^0-9a-fA-F]");
    case 'O':
      return give("(?s:.)");
    case 'p':
    case 'P': {
      auto [members, isNegated] = property();
      out += isNegated ? "[^" + members + "]" : "[" + members + "]";
      return;
    }
    case 'y':
    case 'Y':
      refuse(in.substr(at, 2));
    default:
      return character();
    }
  }

  void give(const std::string &text) {
    out += text;
    at += 2;
  }

  /// Escapes that mean the same in and outside of sets.
  void character() {
    switch (at + 1 < in.size() ? in[at + 1] : 0) {
    case 's':
      return give("\\p{White_Space}");
    case 'S':
      return give("\\P{White_Space}");
    case 'v':
      return give("\\x0B");
    case 'u':
      out += "\\x{" + in.substr(at + 2, 4) + "}";
      at = std::min(in.size(), at + 6);
      return;
    case 'Q':
    case 'E':
      return give(in.substr(at + 1, 1));
    default:
      return copy(2);
    }
  }

  /// Reads `\p{NAME}`: the members that it stands for, and whether it is all
  /// others that are meant.
  std::pair<std::string, bool> property() {
    bool isNegated = in[at + 1] == 'P';
    size_t end = in.find('}', at);
    if (end == std::string::npos || in.compare(at + 2, 1, "{") != 0) {
      std::string given = in.substr(at, 2);
      at = std::min(in.size(), at + 2);
      return {given, false};
    }
    std::string name = in.substr(at + 3, end - at - 3);
    at = end + 1;
    if (!name.empty() && name[0] == '^') {
      isNegated = !isNegated;
      name.erase(0, 1);
    }
    if (const char *known = propertyOf(name))
      return {known, isNegated};
    // Of a script, and not of characters that it shares.
    return {"\\p{" + (isScript(name) ? "sc:" + name : name) + "}", isNegated};
  }

  /// Members up to the end of a set. What is a set in it becomes a part of it.
  void set() {
    for (bool isFirst = true; at < in.size(); isFirst = false) {
      if (in[at] == ']' && !isFirst) {
        ++at;
        return;
      }
      if (comes("&&"))
        refuse("&& in a set");
      if (comes("[:") && bracket())
        continue;
      if (in[at] == '[') {
        ++at;
        if (at < in.size() && in[at] == '^')
          refuse("[^...] in a set");
        set();
        continue;
      }
      if (in[at] == '\\')
        escapeInSet();
      else
        copy();
    }
    throw std::runtime_error("a set does not end");
  }

  /// A POSIX bracket, as [:alpha:].
  bool bracket() {
    size_t end = in.find(":]", at + 2);
    if (end == std::string::npos)
      return false;
    std::string name = in.substr(at + 2, end - at - 2);
    bool isNegated = !name.empty() && name[0] == '^';
    const char *known = propertyOf(isNegated ? name.substr(1) : name);
    if (!known)
      refuse("[:" + name + ":]");
    addMembers(known, isNegated);
    at = end + 2;
    return true;
  }

  /// In a set, or all but these.
  void addMembers(std::string members, bool isNegated) {
    bool isOne = members.compare(0, 3, "\\p{") == 0 &&
                 members.find('}') + 1 == members.size();
    if (isNegated && !isOne)
      refuse("all but several members in a set");
    if (isNegated)
      members[1] = 'P';
    out += members;
  }

  void escapeInSet() {
    switch (at + 1 < in.size() ? in[at + 1] : 0) {
    case 'w':
      return give(propertyOf("word"));
    case 'h':
      return give(propertyOf("xdigit"));
    case 'W':
    case 'H':
      refuse(in.substr(at, 2) + " in a set");
    case 'p':
    case 'P': {
      auto [members, isNegated] = property();
      return addMembers(members, isNegated);
    }
    default:
      return character();
    }
  }

  const std::string &in;
  const std::function<bool(const std::string &)> &isScript;
  size_t at = 0;
  std::string out;
  size_t atom = 0;          ///< Where what is repeated begins in `out`.
  std::vector<size_t> open; ///< The groups that have begun, there.
};

} // namespace

std::string
io::fromRuby(const std::string &pattern,
             const std::function<bool(const std::string &)> &isScript) {
  return Translation(pattern, isScript).run();
}
