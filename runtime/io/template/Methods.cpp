//===- Methods.cpp - Methods of values in templates -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../tokenizer/Unicode.h"
#include "Value.h"
#include <algorithm>
#include <cstring>

using namespace heddle::io;
using namespace heddle::io::jinja;

using Method = Value (*)(const Value &self, const Arguments &arguments);

/// Strips characters, white space unless others are given, from the ends.
static std::string strip(const std::string &text, const Value &characters,
                         bool left, bool right) {
  auto isStripped = [&](unicode::Character character, size_t at) {
    return characters.isString()
               ? characters.string().find(text.substr(at, character.length)) !=
                     std::string::npos
               : unicode::isSpace(character.code);
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
  int64_t left = most.isUndefined() ? -1 : most.integer();
  List parts;
  if (!separator.isString()) {
    std::string word;
    unicode::forEach(text, [&](unicode::Character character, size_t at) {
      bool isSpace = unicode::isSpace(character.code);
      if (isSpace && !word.empty() && left != 0) {
        parts.push_back(word);
        word.clear();
        --left;
      } else if (!isSpace || (left == 0 && !word.empty())) {
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

static bool startsWith(const std::string &text, const std::string &part) {
  return text.compare(0, part.size(), part) == 0;
}
static bool endsWith(const std::string &text, const std::string &part) {
  return text.size() >= part.size() &&
         text.compare(text.size() - part.size(), part.size(), part) == 0;
}

/// Whether `holds` for a text, or for one of several.
template <bool (*holds)(const std::string &, const std::string &)>
static Value affixMethod(const Value &self, const Arguments &arguments) {
  Value part = arguments.get(0, "prefix");
  if (!part.isList())
    return holds(self.string(), part.string());
  return std::any_of(
      part.list().begin(), part.list().end(),
      [&](const Value &one) { return holds(self.string(), one.string()); });
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

static Value replace(const Value &self, const Arguments &arguments) {
  std::string text = self.str(), from = arguments.get(0, "old").string(),
              to = arguments.get(1, "new").string();
  Value most = arguments.get(2, "count");
  int64_t left = most.isUndefined() ? -1 : most.integer();
  for (size_t at = 0; !from.empty() && left-- != 0 &&
                      (at = text.find(from, at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

static std::string lower(const std::string &text) {
  std::string result;
  unicode::forEach(text, [&](unicode::Character character, size_t) {
    unicode::appendLower(result, character.code);
  });
  return result;
}
static std::string upper(const std::string &text) {
  std::string result;
  constexpr uint32_t sharpS = 0xDF; // No single letter is its upper case.
  unicode::forEach(text, [&](unicode::Character character, size_t) {
    if (character.code == sharpS)
      result += "SS";
    else
      unicode::append(result, unicode::upper(character.code));
  });
  return result;
}
static Value lowerMethod(const Value &self, const Arguments &) {
  return lower(self.str());
}
static Value upperMethod(const Value &self, const Arguments &) {
  return upper(self.str());
}

/// The first character of the text, or of each word, in upper case.
static std::string capitalize(const std::string &text, bool eachWord) {
  std::string result;
  bool isFirst = true;
  unicode::forEach(text, [&](unicode::Character character, size_t at) {
    std::string one = text.substr(at, character.length);
    result += isFirst ? upper(one) : lower(one);
    isFirst = eachWord && !unicode::isLetter(character.code);
  });
  return result;
}
static Value capitalizeMethod(const Value &self, const Arguments &) {
  return capitalize(self.str(), false);
}
static Value titleMethod(const Value &self, const Arguments &) {
  return capitalize(self.str(), true);
}

static Value join(const Value &self, const Arguments &arguments) {
  std::string text;
  bool isFirst = true;
  for (const Value &element : arguments.get(0, "iterable").elements()) {
    text += (isFirst ? "" : self.string()) + element.string();
    isFirst = false;
  }
  return text;
}

static Value find(const Value &self, const Arguments &arguments) {
  size_t found = self.string().find(arguments.get(0, "sub").string());
  if (found == std::string::npos)
    return int64_t(-1);
  return Value(self.string().substr(0, found)).length();
}

static Value count(const Value &self, const Arguments &arguments) {
  std::string part = arguments.get(0, "sub").string();
  int64_t times = 0;
  for (size_t at = 0; !part.empty() &&
                      (at = self.string().find(part, at)) != std::string::npos;
       at += part.size())
    ++times;
  return times;
}

static Value splitLines(const Value &self, const Arguments &) {
  // What Python ends lines with.
  static constexpr const char *ends[] = {"\r\n",     "\n",     "\r",    "\v",
                                         "\f",       "\x1C",   "\x1D",  "\x1E",
                                         "\xC2\x85", "\u2028", "\u2029"};
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
    lines.push_back(text.substr(begin, at - begin));
    begin = at += std::strlen(*end);
  }
  if (begin < text.size())
    lines.push_back(text.substr(begin));
  return lines;
}

static Value isDigit(const Value &self, const Arguments &) {
  const std::string &text = self.string();
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

static Value items(const Value &self, const Arguments &) {
  List pairs;
  for (const auto &[key, value] : self.dict())
    pairs.push_back(Value::tuple({key, value}));
  return pairs;
}
static Value keys(const Value &self, const Arguments &) {
  return self.elements();
}
static Value values(const Value &self, const Arguments &) {
  List all;
  for (const auto &[key, value] : self.dict())
    all.push_back(value);
  return all;
}
static Value get(const Value &self, const Arguments &arguments) {
  Value found = self.at(arguments.get(0, "key"));
  if (!found.isUndefined())
    return found;
  Value fallback = arguments.get(1, "default");
  return fallback.isUndefined() ? Value(Value::None{}) : fallback;
}

static Value append(const Value &self, const Arguments &arguments) {
  self.list().push_back(arguments.get(0, "object"));
  return Value::None{};
}

Value jinja::memberOf(const Value &value, const std::string &name) {
  static const std::map<std::string, Method> ofText = {
      {"strip", stripMethod<true, true>},
      {"lstrip", stripMethod<true, false>},
      {"rstrip", stripMethod<false, true>},
      {"split", split},
      {"startswith", affixMethod<startsWith>},
      {"endswith", affixMethod<endsWith>},
      {"removeprefix", removePrefix},
      {"removesuffix", removeSuffix},
      {"replace", replace},
      {"lower", lowerMethod},
      {"upper", upperMethod},
      {"capitalize", capitalizeMethod},
      {"title", titleMethod},
      {"join", join},
      {"find", find},
      {"count", count},
      {"splitlines", splitLines},
      {"isdigit", isDigit}};
  static const std::map<std::string, Method> ofDict = {
      {"items", items}, {"keys", keys}, {"values", values}, {"get", get}};
  static const std::map<std::string, Method> ofList = {{"append", append}};
  const auto &methods = value.isString() ? ofText
                        : value.isDict() ? ofDict
                                         : ofList;
  auto found = methods.find(name);
  bool hasMethods = value.isString() || value.isDict() || value.isList();
  if (!hasMethods || found == methods.end())
    return value.at(name);
  Method method = found->second;
  return Function([value, method](const Arguments &arguments) {
    return method(value, arguments);
  });
}
