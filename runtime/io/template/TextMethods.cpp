//===- TextMethods.cpp - Methods of strings in templates ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Methods of Python's str for templates.
//
//===----------------------------------------------------------------------===//

#include "Methods.h"
#include "WorkLimit.h"
#include "heddle/runtime/io/Affix.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"
#include <algorithm>
#include <cstring>

using namespace heddle::io;
using namespace heddle::io::jinja;

//===----------------------------------------------------------------------===//
// Slicing and splitting
//===----------------------------------------------------------------------===//

/// Whether Python's str.isspace() accepts a character: Unicode white space, and
/// the four separators of ASCII (0x1C to 0x1F).
static bool isSpace(uint32_t code) {
  return unicode::isSpace(code) || (code >= 0x1C && code <= 0x1F);
}

/// Whether a value is given; None counts as not given in Python's methods.
static bool isGiven(const Value &value) {
  return !value.isUndefined() && !value.isNone();
}

namespace {
/// The slice of a text that the arguments `start` and `end` of a method select.
struct SliceArgument {
  SliceArgument(const Value &self, const Arguments &arguments)
      : begin(0), isNone(false) {
    if (!arguments.has(1, "start") && !arguments.has(2, "end")) {
      text = self.string();
      return;
    }
    List all = self.elements();
    auto size = static_cast<int64_t>(all.size());
    auto bound = [&](size_t index, const char *name, int64_t fallback) {
      Value given = arguments.get(index, name);
      int64_t at = isGiven(given) ? given.integer() : fallback;
      return std::max<int64_t>(at < 0 ? at + size : at, 0);
    };
    begin = bound(1, "start", 0);
    int64_t end = std::min(bound(2, "end", size), size);
    isNone = begin > end;
    for (int64_t i = begin; i < end; ++i)
      text += all[i].string();
  }
  int64_t begin;
  bool isNone; ///< The start is after the end: not even an empty text is found.
  std::string text;
};
} // namespace

/// Strips characters (white space by default) from the ends.
static std::string strip(const std::string &text, const Value &characters,
                         bool left, bool right) {
  auto isStripped = [&](unicode::Character character, size_t at) {
    return characters.isString()
               ? characters.string().find(text.substr(at, character.length)) !=
                     std::string::npos
               : isSpace(character.code);
  };
  size_t begin = text.size(), end = 0;
  unicode::forEach(text, [&](unicode::Character character, size_t at) {
    if (isStripped(character, at))
      return;
    begin = std::min(begin, at);
    end = at + character.length;
  });
  begin = left ? begin : 0;
  end = right ? end : text.size();
  return begin < end ? text.substr(begin, end - begin) : "";
}

template <bool left, bool right>
static Value stripMethod(const Value &self, const Arguments &arguments) {
  return strip(self.string(), arguments.get(0, "chars"), left, right);
}

static Value split(const Value &self, const Arguments &arguments) {
  const std::string &text = self.string();
  Value separator = arguments.get(0, "sep"),
        most = arguments.get(1, "maxsplit");
  int64_t left =
      most.isUndefined() ? -1 : std::max<int64_t>(most.integer(), -1);
  List parts;
  if (!separator.isString()) {
    std::string word;
    unicode::forEach(text, [&](unicode::Character character, size_t at) {
      bool isBlank = isSpace(character.code);
      if (isBlank && !word.empty() && left != 0) {
        parts.push_back(word);
        word.clear();
        --left;
      } else if (!isBlank || (left == 0 && !word.empty())) {
        word += text.substr(at, character.length);
      }
    });
    if (!word.empty())
      parts.push_back(word);
    return parts;
  }
  if (separator.string().empty())
    throw TemplateError{"a text cannot be split at nothing"};
  size_t begin = 0, found;
  while (left-- != 0 &&
         (found = text.find(separator.string(), begin)) != std::string::npos) {
    parts.push_back(text.substr(begin, found - begin));
    begin = found + separator.string().size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

static std::string reversed(const std::string &text) {
  List all = Value(text).elements();
  std::string result;
  for (auto it = all.rbegin(); it != all.rend(); ++it)
    result += it->string();
  return result;
}

/// Splits from the end, as Python's rsplit.
static Value splitFromEnd(const Value &self, const Arguments &arguments) {
  Value separator = arguments.get(0, "sep");
  if (separator.isString())
    separator = reversed(separator.string());
  List parts = split(reversed(self.string()),
                     {{separator, arguments.get(1, "maxsplit")}, {}})
                   .list();
  std::reverse(parts.begin(), parts.end());
  for (Value &part : parts)
    part = reversed(part.string());
  return parts;
}

/// The methods `partition`, which splits a text at the first separator, and
/// `rpartition`, which splits it at the last one. Both return the text before
/// the separator, the separator, and the text after it.
template <bool isLast>
static Value partition(const Value &self, const Arguments &arguments) {
  const std::string &text = self.string();
  std::string separator = arguments.get(0, "sep").string();
  if (separator.empty())
    throw TemplateError{"a text cannot be split at nothing"};
  size_t at = isLast ? text.rfind(separator) : text.find(separator);
  if (at == std::string::npos)
    return Value::tuple(isLast ? List{"", "", text} : List{text, "", ""});
  return Value::tuple(
      {text.substr(0, at), separator, text.substr(at + separator.size())});
}

static Value splitLines(const Value &self, const Arguments &arguments) {
  // Python's line ends.
  static constexpr const char *ends[] = {"\r\n",     "\n",     "\r",    "\v",
                                         "\f",       "\x1C",   "\x1D",  "\x1E",
                                         "\xC2\x85", "\u2028", "\u2029"};
  bool keepsEnds = arguments.get(0, "keepends").truth();
  const std::string &text = self.string();
  List lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    auto end = std::find_if(std::begin(ends), std::end(ends), [&](auto *end) {
      return text.compare(at, std::strlen(end), end) == 0;
    });
    if (end == std::end(ends)) {
      ++at;
      continue;
    }
    size_t next = at + std::strlen(*end);
    lines.push_back(text.substr(begin, (keepsEnds ? next : at) - begin));
    begin = at = next;
  }
  if (begin < text.size())
    lines.push_back(text.substr(begin));
  return lines;
}

/// The methods `startswith` and `endswith`: whether a text begins or ends with
/// the argument, or with one of several in a tuple. `holds` tests one of them.
template <bool (*holds)(const std::string &, const std::string &)>
static Value affixMethod(const Value &self, const Arguments &arguments) {
  Value part = arguments.get(0, "prefix");
  SliceArgument slice(self, arguments);
  auto isOne = [&](const Value &one) {
    return holds(slice.text, one.string()) && !slice.isNone;
  };
  if (!part.isList())
    return isOne(part);
  return std::any_of(part.list().begin(), part.list().end(), isOne);
}

static Value removePrefix(const Value &self, const Arguments &arguments) {
  const std::string &text = self.string();
  std::string part = arguments.get(0, "prefix").string();
  return startsWith(text, part) ? text.substr(part.size()) : text;
}
static Value removeSuffix(const Value &self, const Arguments &arguments) {
  const std::string &text = self.string();
  std::string part = arguments.get(0, "suffix").string();
  return endsWith(text, part) ? text.substr(0, text.size() - part.size())
                              : text;
}

//===----------------------------------------------------------------------===//
// Searching
//===----------------------------------------------------------------------===//

template <bool isLast>
static Value find(const Value &self, const Arguments &arguments) {
  SliceArgument slice(self, arguments);
  std::string part = arguments.get(0, "sub").string();
  size_t found = isLast ? slice.text.rfind(part) : slice.text.find(part);
  if (found == std::string::npos || slice.isNone)
    return int64_t(-1);
  return slice.begin + Value(slice.text.substr(0, found)).length();
}

template <bool isLast>
static Value index(const Value &self, const Arguments &arguments) {
  Value found = find<isLast>(self, arguments);
  if (found.integer() < 0)
    throw TemplateError{"a text is not in the other"};
  return found;
}

static Value count(const Value &self, const Arguments &arguments) {
  SliceArgument slice(self, arguments);
  std::string part = arguments.get(0, "sub").string();
  if (part.empty())
    return slice.isNone ? int64_t(0) : Value(slice.text).length() + 1;
  int64_t times = 0;
  for (size_t at = 0; (at = slice.text.find(part, at)) != std::string::npos;
       at += part.size())
    ++times;
  return times;
}

static Value replace(const Value &self, const Arguments &arguments) {
  std::string text = self.str(), from = arguments.get(0, "old").string(),
              to = arguments.get(1, "new").string();
  Value most = arguments.get(2, "count");
  int64_t left = isGiven(most) ? std::max<int64_t>(most.integer(), -1) : -1;
  // The text to replace is empty. As in Python, it is found before each
  // character, and at the end.
  if (from.empty()) {
    std::string result;
    List all = Value(text).elements();
    all.push_back("");
    for (const Value &character : all) {
      bool isWanted = left != 0;
      left -= isWanted;
      WorkLimit::spend(isWanted ? int64_t(to.size()) : 0);
      result += (isWanted ? to : "") + character.string();
    }
    return result;
  }
  std::string result;
  size_t begin = 0;
  for (size_t at;
       left-- != 0 && (at = text.find(from, begin)) != std::string::npos;) {
    WorkLimit::spend(int64_t(to.size()));
    result.append(text, begin, at - begin);
    result += to;
    begin = at + from.size();
  }
  return result.append(text, begin);
}

std::string
jinja::joined(const List &elements, const std::string &separator,
              const std::function<std::string(const Value &)> &textOf) {
  std::string text;
  bool isFirst = true;
  for (const Value &element : elements) {
    std::string part = (isFirst ? "" : separator) + textOf(element);
    WorkLimit::spend(int64_t(part.size()));
    text += part;
    isFirst = false;
  }
  return text;
}

static Value join(const Value &self, const Arguments &arguments) {
  return joined(arguments.get(0, "iterable").elements(), self.string(),
                [](const Value &element) { return element.string(); });
}

//===----------------------------------------------------------------------===//
// Upper and lower case
//===----------------------------------------------------------------------===//

/// Converts to lower case the characters that `isWanted` selects. For each
/// other character, calls `other`, which appends text for this character to its
/// first argument (the result).
static std::string
lowerSome(const std::string &text, bool (*isWanted)(uint32_t),
          void (*other)(std::string &, const std::string &, uint32_t)) {
  constexpr uint32_t sigma = 0x3A3;
  std::string result;
  bool isInWord = false;
  unicode::forEach(text, [&](unicode::Character character, size_t at) {
    size_t end = at + character.length;
    bool isLast = end >= text.size() ||
                  !unicode::isCased(unicode::characterAt(text, end).code);
    if (!isWanted(character.code))
      other(result, text.substr(at, character.length), character.code);
    // At the end of a word, the lower-case sigma has a form of its own.
    else if (character.code == sigma && isInWord && isLast)
      result += "\u03C2";
    else
      unicode::appendLower(result, character.code);
    isInWord = unicode::isCased(character.code);
  });
  return result;
}

static std::string lower(const std::string &text) {
  return lowerSome(
      text, [](uint32_t) { return true; }, nullptr);
}

static std::string upper(const std::string &text) {
  std::string result;
  constexpr uint32_t sharpS = 0xDF; // Sharp s has no upper case of one letter.
  unicode::forEach(text, [&](unicode::Character character, size_t) {
    if (character.code == sharpS)
      result += "SS";
    else
      unicode::append(result, unicode::upper(character.code));
  });
  return result;
}

static std::string titleCase(uint32_t code) {
  std::string text;
  unicode::append(text, unicode::title(code));
  return code == 0xDF ? "Ss" : text;
}

static std::string capitalize(const std::string &text) {
  if (text.empty())
    return text;
  unicode::Character first = unicode::characterAt(text, 0);
  // Lower-case the whole text: whether a final sigma ends a word depends on the
  // letters before it.
  std::string whole = lower(text), begin;
  unicode::appendLower(begin, first.code);
  return titleCase(first.code) + whole.substr(begin.size());
}

/// Converts the first letter of each word to title case.
static std::string title(const std::string &text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    auto codeAt = [&] { return unicode::characterAt(text, end); };
    while (end < text.size() && unicode::isCased(codeAt().code))
      end += codeAt().length;
    result += capitalize(text.substr(at, end - at));
    for (at = end; end < text.size() && !unicode::isCased(codeAt().code);)
      end += codeAt().length;
    result.append(text, at, end - at);
    at = end;
  }
  return result;
}

template <std::string (*change)(const std::string &)>
static Value changed(const Value &self, const Arguments &) {
  return change(self.str());
}
static std::string swapCase(const std::string &text) {
  return lowerSome(text, unicode::isUpper,
                   [](std::string &out, const std::string &one, uint32_t code) {
                     out += unicode::isLower(code) ? upper(one) : one;
                   });
}

//===----------------------------------------------------------------------===//
// Padding
//===----------------------------------------------------------------------===//

std::string jinja::filling(const std::string &fill, int64_t times) {
  WorkLimit::spend(times);
  std::string text;
  for (int64_t i = 0; i < times; ++i)
    text += fill;
  return text;
}

/// Pads a text on the left and right to the width.
static std::string
padded(const Value &self, const Arguments &arguments,
       const std::function<int64_t(int64_t, int64_t)> &left) {
  int64_t width = arguments.get(0, "width").integer();
  Value given = arguments.get(1, "fillchar");
  std::string fill = given.isUndefined() ? " " : given.string();
  if (Value(fill).length() != 1)
    throw TemplateError{"what fills must be one character"};
  if (width > widestText)
    throw TemplateError{"a text is too wide"};
  int64_t missing = std::max<int64_t>(width - self.length(), 0);
  int64_t before = left(missing, width);
  return filling(fill, before) + self.string() +
         filling(fill, missing - before);
}

static Value center(const Value &self, const Arguments &arguments) {
  return padded(self, arguments, [](int64_t missing, int64_t width) {
    return missing / 2 + (missing & width & 1);
  });
}
static Value leftJustify(const Value &self, const Arguments &arguments) {
  return padded(self, arguments, [](int64_t, int64_t) { return 0; });
}
static Value rightJustify(const Value &self, const Arguments &arguments) {
  return padded(self, arguments,
                [](int64_t missing, int64_t) { return missing; });
}

/// Zeros are inserted after a sign.
static Value fillZeros(const Value &self, const Arguments &arguments) {
  const std::string &text = self.string();
  bool isSigned = !text.empty() && (text[0] == '+' || text[0] == '-');
  int64_t width =
      std::max<int64_t>(arguments.get(0, "width").integer(), 0) - isSigned;
  Value digits = rightJustify(text.substr(isSigned), {{width, "0"}, {}});
  return text.substr(0, isSigned) + digits.string();
}

static Value expandTabs(const Value &self, const Arguments &arguments) {
  Value given = arguments.get(0, "tabsize");
  int64_t size =
      std::min<int64_t>(given.isUndefined() ? 8 : given.integer(), 1 << 10);
  std::string text;
  int64_t column = 0;
  for (const Value &character : self.elements()) {
    const std::string &one = character.string();
    if (one == "\t") {
      int64_t blanks = size > 0 ? size - column % size : 0;
      WorkLimit::spend(blanks);
      text.append(blanks, ' ');
      column += blanks;
      continue;
    }
    text += one;
    column = one == "\n" || one == "\r" ? 0 : column + 1;
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Classes of characters
//===----------------------------------------------------------------------===//

template <bool (*holds)(uint32_t), bool ofNone = false>
static Value areAll(const Value &self, const Arguments &) {
  bool all = ofNone || !self.string().empty();
  unicode::forEach(self.string(), [&](unicode::Character character, size_t) {
    all = all && holds(character.code);
  });
  return all;
}

static bool isAscii(uint32_t code) { return code < 0x80; }
static bool isPrintable(uint32_t code) {
  return code == ' ' || unicode::isGraphic(code);
}
static bool isAlnum(uint32_t code) {
  return unicode::isLetter(code) || unicode::isNumber(code);
}

/// Whether a text has letters with case, and all of them are upper case
/// (`isUpper`) or lower case.
template <bool isUpper>
static Value isInCase(const Value &self, const Arguments &) {
  bool has = false, hasOther = false;
  unicode::forEach(self.string(), [&](unicode::Character character, size_t) {
    if (!unicode::isCased(character.code))
      return;
    bool isWanted = isUpper ? unicode::isUpper(character.code)
                            : unicode::isLower(character.code);
    (isWanted ? has : hasOther) = true;
  });
  return has && !hasOther;
}

static Value isTitle(const Value &self, const Arguments &) {
  bool has = false, isWrong = false, isInWord = false;
  unicode::forEach(self.string(), [&](unicode::Character character, size_t) {
    bool isCased = unicode::isCased(character.code);
    has |= isCased;
    isWrong |= isCased && unicode::isLower(character.code) != isInWord;
    isInWord = isCased;
  });
  return has && !isWrong;
}

static Value isIdentifier(const Value &self, const Arguments &) {
  bool isFirst = true, holds = !self.string().empty();
  unicode::forEach(self.string(), [&](unicode::Character character, size_t) {
    uint32_t code = character.code;
    holds = holds && (code == '_' || unicode::isLetter(code) ||
                      (!isFirst && unicode::isWord(code)));
    isFirst = false;
  });
  return holds;
}

const MethodTable &jinja::textMethods() {
  static const MethodTable methods = {
      {"capitalize", changed<capitalize>},
      {"casefold", changed<unicode::foldCase>},
      {"center", center},
      {"count", count},
      {"endswith", affixMethod<endsWith>},
      {"expandtabs", expandTabs},
      {"find", find<false>},
      {"format", formatMethod},
      {"index", index<false>},
      {"isalnum", areAll<isAlnum>},
      {"isalpha", areAll<unicode::isLetter>},
      {"isascii", areAll<isAscii, true>},
      {"isdecimal", areAll<unicode::isDecimal>},
      {"isdigit", areAll<unicode::isDigit>},
      {"isidentifier", isIdentifier},
      {"islower", isInCase<false>},
      {"isnumeric", areAll<unicode::isNumber>},
      {"isprintable", areAll<isPrintable, true>},
      {"isspace", areAll<isSpace>},
      {"istitle", isTitle},
      {"isupper", isInCase<true>},
      {"join", join},
      {"ljust", leftJustify},
      {"lower", changed<lower>},
      {"lstrip", stripMethod<true, false>},
      {"partition", partition<false>},
      {"removeprefix", removePrefix},
      {"removesuffix", removeSuffix},
      {"replace", replace},
      {"rfind", find<true>},
      {"rindex", index<true>},
      {"rjust", rightJustify},
      {"rpartition", partition<true>},
      {"rsplit", splitFromEnd},
      {"rstrip", stripMethod<false, true>},
      {"split", split},
      {"splitlines", splitLines},
      {"startswith", affixMethod<startsWith>},
      {"strip", stripMethod<true, true>},
      {"swapcase", changed<swapCase>},
      {"title", changed<title>},
      {"upper", changed<upper>},
      {"zfill", fillZeros}};
  return methods;
}
