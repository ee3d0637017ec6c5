//===- Format.cpp - String formatting of chat templates -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Python's str.format, format() and % for strings.
//
//===----------------------------------------------------------------------===//

#include "Methods.h"
#include "WorkLimit.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"
#include <algorithm>
#include <cmath>
#include <cstring>

using namespace heddle::io;
using namespace heddle::io::jinja;

namespace {
/// A format specification:
/// `[[fill]align][sign][#][0][width][,][.precision][type]` of Python's
/// format(), or its equivalent after a `%`.
struct Style {
  std::string fill = " ";
  char align = 0; ///< One of `<>^=`; 0: the default of the type.
  char sign = '-';
  bool isAlternate = false;
  int64_t width = 0, precision = -1;
  char group = 0; ///< Separator of thousands.
  char type = 0;
};
} // namespace

static constexpr int64_t mostDigits = 400;

/// Reads digits at a position and moves past them; -1 if there are none.
static int64_t digitsAt(const std::string &text, size_t &at) {
  int64_t number = -1;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
    number = std::min(std::max<int64_t>(number, 0) * 10 + (text[at] - '0'),
                      widestText + 1);
  if (number > widestText)
    throw TemplateError{"a text is too wide"};
  return number;
}

static Style styleOf(const std::string &spec) {
  Style style;
  size_t at = 0;
  auto takes = [&](const char *signs) {
    bool found = at < spec.size() && std::strchr(signs, spec[at]);
    return found ? spec[at++] : char(0);
  };
  size_t first = spec.empty() ? 0 : unicode::characterAt(spec, 0).length;
  if (first < spec.size() && std::strchr("<>^=", spec[first])) {
    style.fill = spec.substr(0, first);
    at = first;
  }
  style.align = takes("<>^=");
  if (char sign = takes("+- "))
    style.sign = sign;
  style.isAlternate = takes("#");
  if (takes("0") && !style.align) {
    style.fill = "0";
    style.align = '=';
  }
  style.width = std::max<int64_t>(digitsAt(spec, at), 0);
  style.group = takes(",_");
  if (takes(".") && (style.precision = digitsAt(spec, at)) < 0)
    throw TemplateError{"the format '" + spec + "' has no precision after ."};
  style.type = takes("sbcdoxXeEfFgGn%");
  if (at < spec.size())
    throw TemplateError{"the format '" + spec + "' is not known"};
  return style;
}

/// Pads a text to the width; for the alignment `=`, the fill goes after the
/// sign.
static std::string padded(const std::string &sign, const std::string &text,
                          const Style &style, char align) {
  align = style.align ? style.align : align;
  int64_t missing = std::max<int64_t>(
      style.width - Value(text).length() - int64_t(sign.size()), 0);
  int64_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string left = filling(style.fill, before),
              right = filling(style.fill, missing - before);
  return (align == '=' ? sign + left : left + sign) + text + right;
}

static void group(std::string &digits, const Style &style, size_t every) {
  size_t end = digits.find_first_not_of("0123456789abcdefABCDEF");
  if (!style.group)
    return;
  for (size_t at = std::min(end, digits.size()); at > every;)
    digits.insert(at -= every, 1, style.group);
}

static std::string formatWhole(int64_t number, const Style &style) {
  uint64_t left = number < 0 ? -uint64_t(number) : uint64_t(number);
  char type = style.type;
  unsigned base = type == 'b'   ? 2
                  : type == 'o' ? 8
                  : type == 'x' ? 16
                  : type == 'X' ? 16
                                : 10;
  const char *signs = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits += signs[left % base];
  } while (left /= base);
  std::reverse(digits.begin(), digits.end());
  if (style.precision > 0 && int64_t(digits.size()) < style.precision)
    digits.insert(0, style.precision - digits.size(), '0');
  group(digits, style, base == 10 ? 3 : 4);
  std::string sign = number < 0          ? "-"
                     : style.sign == '-' ? ""
                                         : std::string(1, style.sign);
  if (style.isAlternate && base != 10)
    sign += std::string("0") + type;
  return padded(sign, digits, style, '>');
}

static std::string formatReal(double number, const Style &style) {
  bool isPlain = !style.type && style.precision < 0;
  int64_t precision = style.precision < 0 ? 6 : style.precision;
  if (precision > mostDigits)
    throw TemplateError{"a number cannot have " + std::to_string(precision) +
                        " digits"};
  double size = std::fabs(number) * (style.type == '%' ? 100 : 1);
  char type = style.type == '%'                  ? 'f'
              : !style.type || style.type == 'n' ? 'g'
                                                 : style.type;
  std::string digits;
  if (isPlain) {
    digits = Value(size).repr();
  } else {
    char text[800];
    char form[] = {'%', '.', '*', type, 0};
    std::snprintf(text, sizeof text, form, int(precision), size);
    digits = text;
    if (!style.type && digits.find_first_of(".en") == std::string::npos)
      digits += ".0";
  }
  if (style.type == '%')
    digits += '%';
  group(digits, style, 3);
  std::string sign = std::signbit(number) && !std::isnan(number) ? "-"
                     : style.sign == '-'                         ? ""
                                         : std::string(1, style.sign);
  return padded(sign, digits, style, '>');
}

static std::string formatText(std::string text, const Style &style) {
  if (style.precision >= 0) {
    std::string begin;
    int64_t left = style.precision;
    for (const Value &character : Value(text).elements())
      begin += left-- > 0 ? character.string() : "";
    text = begin;
  }
  return padded("", text, style, '<');
}

std::string jinja::formatValue(const Value &value, const std::string &spec) {
  if (spec.empty())
    return value.str();
  Style style = styleOf(spec);
  if (value.isString()) {
    if ((style.type && style.type != 's') || style.align == '=')
      throw TemplateError{"the format '" + spec + "' is not one of texts"};
    return formatText(value.string(), style);
  }
  if (!value.isNumber() || style.type == 's')
    throw TemplateError{"the format '" + spec + "' is not one of " +
                        value.kind()};
  if (style.type == 'c') {
    std::string character;
    unicode::append(character, uint32_t(value.integer()));
    return padded("", character, style, '<');
  }
  bool isReal =
      value.is<double>() || (style.type && std::strchr("eEfFgG%", style.type));
  if (isReal && style.type && std::strchr("bdoxX", style.type))
    throw TemplateError{"the format '" + spec + "' is one of whole numbers"};
  if (!isReal && style.precision >= 0)
    throw TemplateError{"a whole number has no precision"};
  return isReal ? formatReal(value.number(), style)
                : formatWhole(value.integer(), style);
}

//===----------------------------------------------------------------------===//
// text.format(...)
//===----------------------------------------------------------------------===//

namespace {
class Fields {
public:
  explicit Fields(const Arguments &arguments) : arguments(arguments) {}

  /// Replaces each `{...}`, which may be nested, by its value.
  std::string fill(const std::string &text, int depth = 0) {
    std::string result;
    for (size_t at = 0; at < text.size();) {
      char c = text[at];
      bool isTwice = at + 1 < text.size() && text[at + 1] == c;
      if ((c == '{' || c == '}') && isTwice) {
        result += c;
        at += 2;
      } else if (c == '{') {
        size_t end = endOf(text, at);
        if (depth > 1)
          throw TemplateError{"a format is nested too deeply"};
        std::string part = field(text.substr(at + 1, end - at - 1), depth);
        WorkLimit::spend(int64_t(part.size()));
        result += part;
        at = end + 1;
      } else if (c == '}') {
        throw TemplateError{"a format has a } without its {"};
      } else {
        result += c;
        ++at;
      }
    }
    return result;
  }

private:
  static size_t endOf(const std::string &text, size_t at) {
    int depth = 0;
    for (; at < text.size(); ++at) {
      depth += (text[at] == '{') - (text[at] == '}');
      if (depth == 0)
        return at;
    }
    throw TemplateError{"a format has a { without its }"};
  }

  /// Formats `[name][!conversion][:spec]`.
  std::string field(const std::string &text, int depth) {
    size_t end = std::min(text.find_first_of("!:"), text.size());
    Value value = valueOf(text.substr(0, end));
    if (end < text.size() && text[end] == '!') {
      char how = end + 1 < text.size() ? text[end + 1] : 0;
      if (how != 's' && how != 'r')
        throw TemplateError{"a format converts with !s or !r"};
      value = how == 's' ? value.str() : value.repr();
      end += 2;
    }
    if (end < text.size() && text[end] != ':')
      throw TemplateError{"a format needs a : before '" + text.substr(end) +
                          "'"};
    return formatValue(
        value, end < text.size() ? fill(text.substr(end + 1), depth + 1) : "");
  }

  /// Returns the value of a replacement field, such as `0.name[2]`. The field
  /// begins with the position or name of an argument, or with nothing for the
  /// next argument. A path to a member or element of the argument may follow.
  Value valueOf(const std::string &path) {
    size_t end = std::min(path.find_first_of(".["), path.size());
    std::string name = path.substr(0, end);
    Value value = argument(name);
    while (end < path.size()) {
      bool isIndex = path[end] == '[';
      size_t begin = end + 1;
      end = isIndex ? path.find(']', begin) : path.find_first_of(".[", begin);
      end = std::min(end, path.size());
      std::string part = path.substr(begin, end - begin);
      size_t read = 0;
      int64_t index = digitsAt(part, read);
      bool isNumber = isIndex && index >= 0 && read == part.size();
      value = isNumber  ? value.at(index)
              : isIndex ? value.at(part)
                        : memberOf(value, part);
      if (value.isUndefined())
        throw TemplateError{"there is no '" + path + "' for a format"};
      end += isIndex && end < path.size();
    }
    return value;
  }

  Value argument(const std::string &name) {
    size_t read = 0;
    int64_t index = digitsAt(name, read);
    if (read < name.size()) {
      auto it = arguments.named.find(name);
      if (it == arguments.named.end())
        throw TemplateError{"there is no argument '" + name + "' for a format"};
      return it->second;
    }
    (name.empty() ? isCounted : isNumbered) = true;
    if (isCounted && isNumbered)
      throw TemplateError{
          "a format has numbers for all of its fields, or none"};
    index = name.empty() ? next++ : index;
    if (index >= int64_t(arguments.positional.size()))
      throw TemplateError{"a format has too few arguments"};
    return arguments.positional[index];
  }

  const Arguments &arguments;
  int64_t next = 0;
  bool isCounted = false, isNumbered = false;
};
} // namespace

Value jinja::formatMethod(const Value &self, const Arguments &arguments) {
  return Fields(arguments).fill(self.string());
}

//===----------------------------------------------------------------------===//
// text % values
//===----------------------------------------------------------------------===//

static std::string percentOf(const Value &value, Style style, char type) {
  switch (type) {
  case 's':
  case 'r':
    style.align = style.align == '<' ? '<' : '>';
    style.fill = " ";
    return formatText(type == 's' ? value.str() : value.repr(), style);
  case 'd':
  case 'i':
  case 'u':
    style.type = 'd';
    return formatWhole(wholeOf(value), style);
  case 'x':
  case 'X':
  case 'o':
    style.type = type;
    return formatWhole(value.integer(), style);
  case 'e':
  case 'E':
  case 'f':
  case 'F':
  case 'g':
  case 'G':
    style.type = type;
    return formatReal(value.number(), style);
  case 'c': {
    std::string character = value.isString() ? value.string() : "";
    if (!value.isString())
      unicode::append(character, uint32_t(value.integer()));
    style.align = style.align == '<' ? '<' : '>';
    return formatText(character, style);
  }
  default:
    throw TemplateError{std::string("'%") + type + "' formats nothing"};
  }
}

/// Parses the text between a `%` and its type.
static Style percentStyle(const std::string &text, size_t &at) {
  Style style;
  for (; at < text.size() && std::strchr("-+ #0", text[at]); ++at) {
    if (text[at] == '-')
      style.align = '<';
    else if (text[at] == '0' && style.align != '<')
      style.align = '=', style.fill = "0";
    else if (text[at] == '#')
      style.isAlternate = true;
    else if (text[at] == '+' || style.sign == '-')
      style.sign = text[at] == '0' ? style.sign : text[at];
  }
  style.width = std::max<int64_t>(digitsAt(text, at), 0);
  if (at < text.size() && text[at] == '.')
    style.precision = std::max<int64_t>(digitsAt(text, ++at), 0);
  if (style.align == '<')
    style.fill = " ";
  return style;
}

std::string jinja::formatPercent(const std::string &text, const Value &values) {
  List all = values.isTuple() ? values.list() : List{values};
  size_t next = 0;
  auto take = [&] {
    if (next >= all.size())
      throw TemplateError{"a format has too few values"};
    return all[next++];
  };
  std::string result;
  bool isNamed = values.isDict();
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '%') {
      result += text[at++];
      continue;
    }
    Value value;
    bool hasName = ++at < text.size() && text[at] == '(';
    if (hasName) {
      size_t end = std::min(text.find(')', at), text.size());
      std::string name = text.substr(at + 1, end - at - 1);
      value = values.at(name);
      if (!values.isDict() || value.isUndefined())
        throw TemplateError{"there is no '" + name + "' for a format"};
      at = std::min(end + 1, text.size());
    }
    Style style = percentStyle(text, at);
    if (at >= text.size())
      throw TemplateError{"a format ends after %"};
    char type = text[at++];
    std::string part =
        type == '%' ? "%" : percentOf(hasName ? value : take(), style, type);
    WorkLimit::spend(int64_t(part.size()));
    result += part;
  }
  if (!isNamed && next < all.size())
    throw TemplateError{"a format has too many values"};
  return result;
}
