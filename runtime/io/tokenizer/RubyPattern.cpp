//===- RubyPattern.cpp - Ruby patterns to PCRE2's -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A recursive-descent translator of regular expressions, from Oniguruma's Ruby
// syntax to PCRE2's.
//
//===----------------------------------------------------------------------===//

#include "RubyPattern.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

using namespace heddle;

/// The names of Ruby's character classes, as in `\p{word}` and [:word:], and
/// what PCRE2 allows in brackets for the same characters.
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

/// A set of characters: members that PCRE2 allows in brackets, and expressions
/// that each match one character.
struct Set {
  std::string members;
  std::vector<std::string> others;
  bool isNegated = false;

  void add(const Set &more) {
    if (more.isNegated) {
      others.push_back(more.text());
      return;
    }
    members += more.members;
    others.insert(others.end(), more.others.begin(), more.others.end());
  }

  /// Returns an expression that matches one character of the set. It is atomic:
  /// PCRE2 does not look for another match of the set when the text after it
  /// does not match.
  std::string text() const {
    if (others.empty() && members.empty())
      throw std::runtime_error("a part of a set is empty");
    if (others.empty())
      return (isNegated ? "[^" : "[") + members + "]";
    std::string any;
    for (const std::string &other : others)
      any += (any.empty() ? "" : "|") + other;
    if (isNegated)
      return "(?:(?!" + any + ")" +
             (members.empty() ? "(?s:.)" : "[^" + members + "]") + ")";
    return "(?>" + any + (members.empty() ? "" : "|[" + members + "]") + ")";
  }
};

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
  /// Copies `count` characters unchanged.
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
      out += set().text();
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
      // Copy all bytes of the character, so that a quantifier repeats all of
      // them.
      do
        copy();
      while (at < in.size() && (static_cast<uint8_t>(in[at]) & 0xC0) == 0x80);
    }
  }

  /// Translates the beginning of a group. Its option `m` makes a dot match a
  /// newline.
  void group() {
    if (comes("(?#")) {
      open.pop_back();
      size_t end = std::min(in.find(')', at), in.size() - 1);
      at = end + 1;
      return;
    }
    if (comes("(?~"))
      refuse("(?~ ...)");
    bool hasFlags =
        comes("(?") && at + 2 < in.size() && std::strchr("imx-", in[at + 2]);
    copy();
    if (!hasFlags)
      return;
    copy();
    for (; at < in.size() && std::strchr("imx-", in[at]); ++at)
      out += in[at] == 'm' ? 's' : in[at];
  }

  /// Translates `{n,m}`. In Ruby a `+` after an interval, or a `?` after one
  /// without a comma, is a second quantifier, which repeats the interval as a
  /// whole.
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

  /// Translates an escape that is not in a character set [...]. `at` is the
  /// index of its backslash.
  void escape() {
    // Outside of [...], Oniguruma's \w also matches six digits of Latin-1: the
    // superscripts 1 to 3 and the three fractions.
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
      if (members == propertyOf("word"))
        members = word;
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

  /// Translates an escape that means the same inside and outside of a character
  /// set [...].
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

  /// Parses `\p{NAME}`. Returns the members it denotes, and whether it is
  /// negated.
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
    // Match by the property Script, as Oniguruma does, and not by
    // Script_Extensions.
    return {"\\p{" + (isScript(name) ? "sc:" + name : name) + "}", isNegated};
  }

  /// Parses a character set [...], whose opening bracket has been read. `&&`
  /// (intersection) binds less than juxtaposition (union), and `^` least.
  Set set() {
    constexpr int deepest = 100; // Limit of nesting, for the stack.
    if (++depth > deepest)
      throw std::runtime_error("sets are nested too deeply");
    Set whole;
    whole.isNegated = at < in.size() && in[at] == '^';
    at += whole.isNegated;
    std::string before;
    Set part = members(/*isFirst=*/true);
    for (; comes("&&"); part = members(/*isFirst=*/false)) {
      at += 2;
      before += "(?=" + part.text() + ")";
    }
    ++at;
    if (before.empty())
      whole.add(part);
    else
      whole.others.push_back("(?:" + before + part.text() + ")");
    --depth;
    return whole;
  }

  /// Parses members up to the end of a set or to `&&`. The members of a nested
  /// set become members of the outer set.
  Set members(bool isFirst) {
    Set made;
    std::string outer = std::move(out);
    out.clear();
    for (;; isFirst = false) {
      if (at >= in.size())
        throw std::runtime_error("a set does not end");
      if (comes("&&") || (in[at] == ']' && !isFirst))
        break;
      if (comes("[:") && bracket(made))
        continue;
      if (in[at] == '[') {
        ++at;
        made.add(set());
      } else if (in[at] == '\\') {
        escapeInSet(made);
      } else {
        copy();
      }
    }
    made.members += out;
    out = std::move(outer);
    return made;
  }

  /// Parses a POSIX bracket, such as [:alpha:].
  bool bracket(Set &to) {
    size_t end = in.find(":]", at + 2);
    if (end == std::string::npos)
      return false;
    std::string name = in.substr(at + 2, end - at - 2);
    bool isNegated = !name.empty() && name[0] == '^';
    name.erase(0, isNegated);
    // [:punct:] includes symbols, which \p{punct} does not.
    const char *known = name == "punct" ? "\\p{P}\\p{S}" : propertyOf(name);
    if (!known)
      refuse("[:" + name + ":]");
    addMembers(to, known, isNegated);
    at = end + 2;
    return true;
  }

  /// Adds `members` to a set, or if `isNegated` all characters that are not
  /// among them.
  void addMembers(Set &to, const std::string &members, bool isNegated) {
    bool isOne = members.compare(0, 3, "\\p{") == 0 &&
                 members.find('}') + 1 == members.size();
    if (isNegated && !isOne)
      to.others.push_back("[^" + members + "]");
    else
      out += isNegated ? "\\P" + members.substr(2) : members;
  }

  void escapeInSet(Set &to) {
    switch (at + 1 < in.size() ? in[at + 1] : 0) {
    case 'w':
      return give(propertyOf("word"));
    case 'h':
      return give(propertyOf("xdigit"));
    case 'W':
    case 'H':
      addMembers(to, propertyOf(in[at + 1] == 'W' ? "word" : "xdigit"), true);
      at += 2;
      return;
    case 'p':
    case 'P': {
      auto [members, isNegated] = property();
      return addMembers(to, members, isNegated);
    }
    default:
      return character();
    }
  }

  const std::string &in;
  const std::function<bool(const std::string &)> &isScript;
  size_t at = 0;
  int depth = 0; ///< Nesting of sets.
  std::string out;
  /// The offset in `out` of the expression that the next quantifier repeats.
  size_t atom = 0;
  std::vector<size_t> open; ///< Where the open groups begin in `out`.
};

} // namespace

std::string
io::fromRuby(const std::string &pattern,
             const std::function<bool(const std::string &)> &isScript) {
  return Translation(pattern, isScript).run();
}
