//===- Filters.cpp - Filters of chat templates ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Jinja's filters, `value | filter(arguments)`, with the behavior of Jinja and
// transformers.
//
//===----------------------------------------------------------------------===//

#include "Methods.h"
#include "WorkLimit.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <optional>
#include <sstream>
#include <utility>

using namespace heddle::io;
using namespace heddle::io::jinja;

/// A filter that calls a method of strings.
template <const char *name>
static Value method(const Value &input, const Arguments &arguments) {
  return memberOf(input.str(), name).call(arguments);
}
static constexpr char stripName[] = "strip", upperName[] = "upper",
                      lowerName[] = "lower", capitalizeName[] = "capitalize",
                      replaceName[] = "replace";

static Value length(const Value &input, const Arguments &) {
  return input.length();
}

static constexpr int64_t widestIndent = 1 << 10;

/// The filter `tojson` of transformers. The first argument may also be the
/// indent, as in Jinja.
static Value toJson(const Value &input, const Arguments &arguments) {
  JsonStyle style;
  Value ascii = arguments.get(0, "ensure_ascii");
  Value indent = ascii.is<int64_t>() ? ascii : arguments.get(1, "indent");
  style.isAscii = ascii.is<bool>() && ascii.truth();
  if (indent.is<int64_t>()) {
    if (indent.integer() > widestIndent)
      throw TemplateError{"an indent is too wide"};
    style.indent = static_cast<int>(indent.integer());
    style.comma = ",";
  }
  Value separators = arguments.get(2, "separators");
  if (separators.isList() && separators.list().size() == 2) {
    style.comma = separators.list()[0].str();
    style.colon = separators.list()[1].str();
  }
  style.sortsKeys = arguments.get(3, "sort_keys").truth();
  return input.json(style);
}

/// Returns the member of `value` that a filter's argument `attribute` names,
/// such as `a.b`. Without this argument, returns `value` itself.
static Value attributeOf(const Value &value, const Value &attribute) {
  if (attribute.isUndefined())
    return value;
  if (!attribute.isString())
    return value.at(attribute);
  Value found = value;
  std::istringstream path(attribute.string());
  for (std::string part; std::getline(path, part, '.');) {
    constexpr size_t longest = 18;
    bool isIndex = !part.empty() && part.size() <= longest &&
                   part.find_first_not_of("0123456789") == std::string::npos;
    found = found.at(isIndex ? Value(int64_t(std::stoll(part))) : Value(part));
  }
  return found;
}

/// Returns the key that represents `value` in a comparison: a text in lower
/// case, unless `hasCase` demands that upper and lower case differ.
static Value caseless(const Value &value, bool hasCase) {
  return value.isString() && !hasCase ? memberOf(value, "lower").call({})
                                      : value;
}

/// Sorts elements by `key`; stable.
template <typename Key>
static void sortBy(List &all, bool isReversed, const Key &key) {
  std::stable_sort(all.begin(), all.end(), [&](const Value &a, const Value &b) {
    return isReversed ? key(b) < key(a) : key(a) < key(b);
  });
}

static Value join(const Value &input, const Arguments &arguments) {
  Value separator = arguments.get(0, "d"),
        attribute = arguments.get(1, "attribute");
  return joined(input.elements(), separator.str(), [&](const Value &element) {
    return attributeOf(element, attribute).str();
  });
}

static Value first(const Value &input, const Arguments &) {
  List all = input.elements();
  return all.empty() ? Value() : all.front();
}
static Value last(const Value &input, const Arguments &) {
  List all = input.elements();
  return all.empty() ? Value() : all.back();
}

static Value orDefault(const Value &input, const Arguments &arguments) {
  bool replaces = arguments.get(1, "boolean").truth() ? !input.truth()
                                                      : input.isUndefined();
  if (!replaces)
    return input;
  Value fallback = arguments.get(0, "default_value");
  return fallback.isUndefined() ? Value("") : fallback;
}

static Value string(const Value &input, const Arguments &) {
  return input.str();
}

static std::string trimmed(const Value &input) {
  return memberOf(input.str(), "strip").call({}).string();
}

/// Parses a text that consists of one number. Returns nothing for any other
/// text.
static std::optional<double> numberOf(const std::string &text) {
  try {
    size_t read = 0;
    double number = std::stod(text, &read);
    if (read == text.size())
      return number;
  } catch (const std::exception &) { // Not a number.
  }
  return std::nullopt;
}

static Value toInteger(const Value &input, const Arguments &arguments) {
  if (input.isNumber())
    return wholeOf(input);
  std::string text = trimmed(input);
  Value base = arguments.get(1, "base");
  try {
    size_t read = 0;
    int64_t whole = std::stoll(
        text, &read,
        base.isUndefined() ? 10
                           : int(std::clamp<int64_t>(wholeOf(base), -1, 99)));
    if (read == text.size())
      return whole;
  } catch (const std::exception &) { // A fraction, or not a number.
  }
  std::optional<double> number = numberOf(text);
  if (number && std::abs(*number) < 0x1p63)
    return static_cast<int64_t>(*number);
  Value fallback = arguments.get(0, "default");
  return fallback.isUndefined() ? Value(int64_t(0)) : fallback;
}
static Value toFloat(const Value &input, const Arguments &arguments) {
  if (input.isNumber())
    return input.number();
  if (std::optional<double> number = numberOf(trimmed(input)))
    return *number;
  Value fallback = arguments.get(0, "default");
  return fallback.isUndefined() ? Value(0.0) : fallback;
}

static Value list(const Value &input, const Arguments &) {
  return input.elements();
}
static Value items(const Value &input, const Arguments &arguments) {
  return input.isUndefined() ? Value(List())
                             : memberOf(input, "items").call(arguments);
}

static Value dictSort(const Value &input, const Arguments &arguments) {
  List pairs = memberOf(input, "items").call({}).list();
  bool hasCase = arguments.get(0, "case_sensitive").truth();
  Value by = arguments.get(1, "by");
  size_t part = by.isString() && by.string() == "value" ? 1 : 0;
  sortBy(pairs, arguments.get(2, "reverse").truth(), [&](const Value &pair) {
    return caseless(pair.list()[part], hasCase);
  });
  return pairs;
}

static Value sort(const Value &input, const Arguments &arguments) {
  List all = input.elements();
  bool hasCase = arguments.get(1, "case_sensitive").truth();
  Value attribute = arguments.get(2, "attribute");
  sortBy(all, arguments.get(0, "reverse").truth(), [&](const Value &element) {
    return caseless(attributeOf(element, attribute), hasCase);
  });
  return all;
}

/// The filters `max` and `min`: return the first of the largest or smallest
/// elements.
template <bool isLargest>
static Value extreme(const Value &input, const Arguments &arguments) {
  List all = input.elements();
  bool hasCase = arguments.get(0, "case_sensitive").truth();
  Value attribute = arguments.get(1, "attribute");
  sortBy(all, isLargest, [&](const Value &element) {
    return caseless(attributeOf(element, attribute), hasCase);
  });
  return all.empty() ? Value() : all.front();
}

static Value unique(const Value &input, const Arguments &arguments) {
  bool hasCase = arguments.get(0, "case_sensitive").truth();
  List all, known;
  for (const Value &element : input.elements()) {
    Value key = caseless(element, hasCase);
    if (std::find(known.begin(), known.end(), key) != known.end())
      continue;
    known.push_back(key);
    all.push_back(element);
  }
  return all;
}

static Value reverse(const Value &input, const Arguments &) {
  List all = input.elements();
  std::reverse(all.begin(), all.end());
  if (!input.isString())
    return all;
  std::string text;
  for (const Value &character : all)
    text += character.string();
  return text;
}

/// Jinja's do_title, which differs from the string method: a word begins after
/// white space, a hyphen or an opening bracket, and not after an apostrophe.
static Value title(const Value &input, const Arguments &) {
  std::string text;
  bool begins = true;
  for (const Value &element : Value(input.str()).elements()) {
    const std::string &character = element.string();
    text += memberOf(element, begins ? "upper" : "lower").call({}).string();
    begins = memberOf(element, "strip").call({}).string().empty() ||
             std::string_view("-({[<").find(character) != std::string::npos;
  }
  return text;
}

/// Returns the arguments after the first `count`.
static Arguments argumentsAfter(const Arguments &arguments, size_t count) {
  Arguments rest;
  if (arguments.positional.size() > count)
    rest.positional.assign(arguments.positional.begin() + count,
                           arguments.positional.end());
  return rest;
}

static Value map(const Value &input, const Arguments &arguments) {
  List all;
  auto attribute = arguments.named.find("attribute");
  for (const Value &element : input.elements()) {
    if (attribute != arguments.named.end()) {
      Value found = attributeOf(element, attribute->second);
      auto fallback = arguments.named.find("default");
      bool misses = found.isUndefined() && fallback != arguments.named.end();
      all.push_back(misses ? fallback->second : found);
      continue;
    }
    std::string name = arguments.get(0, "filter").string();
    Filter filter = findFilter(name);
    all.push_back(filter(element, argumentsAfter(arguments, 1)));
  }
  return all;
}

/// The filters `select`, `reject`, `selectattr` and `rejectattr`. They test
/// each element, or an attribute of it, and keep the elements for which the
/// test holds (`keeps`) or fails.
template <bool keeps, bool ofAttribute>
static Value select(const Value &input, const Arguments &arguments) {
  List all;
  size_t at = ofAttribute ? 1 : 0;
  Value name = arguments.get(at, "test");
  Test test = name.isUndefined() ? nullptr : findTest(name.string());
  for (const Value &element : input.elements()) {
    Value tested = ofAttribute
                       ? attributeOf(element, arguments.get(0, "attribute"))
                       : element;
    bool holds =
        test ? test(tested, argumentsAfter(arguments, at + 1)) : tested.truth();
    if (holds == keeps)
      all.push_back(element);
  }
  return all;
}

static Value indent(const Value &input, const Arguments &arguments) {
  Value width = arguments.get(0, "width");
  int64_t blanks =
      width.isString() || width.isUndefined() ? 4 : width.integer();
  if (blanks > widestIndent)
    throw TemplateError{"an indent is too wide"};
  std::string margin = width.isString()
                           ? width.string()
                           : std::string(std::max<int64_t>(blanks, 0), ' ');
  bool isFirst = true, indentsFirst = arguments.get(1, "first").truth();
  bool indentsBlank = arguments.get(2, "blank").truth();
  std::string text;
  const Value lines = memberOf(input.str(), "split").call({{Value("\n")}, {}});
  for (const Value &line : lines.list()) {
    bool isIndented =
        isFirst ? indentsFirst : indentsBlank || !line.string().empty();
    WorkLimit::spend(int64_t(margin.size()));
    text += (isFirst ? "" : "\n") + (isIndented ? margin : "") + line.string();
    isFirst = false;
  }
  return text;
}

static Value absolute(const Value &input, const Arguments &) {
  if (input.is<double>())
    return std::fabs(input.number());
  return input.integer() < 0 ? compute("-", int64_t(0), input)
                             : Value(input.integer());
}

static Value rounded(const Value &input, const Arguments &arguments) {
  Value digits = arguments.get(0, "precision");
  Value method = arguments.get(1, "method");
  std::string how = method.isUndefined() ? "common" : method.str();
  double scale = std::pow(10.0, digits.isUndefined() ? 0 : digits.number());
  double scaled = input.number() * scale;
  if (how == "floor")
    return std::floor(scaled) / scale;
  if (how == "ceil")
    return std::ceil(scaled) / scale;
  int64_t places = digits.isUndefined() ? 0 : digits.integer();
  if (places < 0)
    return std::nearbyint(scaled) / scale;
  if (!input.is<double>())
    return input.integer();
  // Format the number with `places` decimal digits, as Python's round does. If
  // it were multiplied by a power of ten and then rounded, the result could
  // differ, since the product is inexact.
  constexpr int64_t most = 400;
  std::ostringstream text;
  text << std::fixed << std::setprecision(int(std::min(places, most)))
       << input.number();
  return std::strtod(text.str().c_str(), nullptr);
}

static Value same(const Value &input, const Arguments &) { return input; }

static Value escape(const Value &input, const Arguments &) {
  std::string text;
  for (char c : input.str())
    text += c == '&'    ? "&amp;"
            : c == '<'  ? "&lt;"
            : c == '>'  ? "&gt;"
            : c == '"'  ? "&#34;"
            : c == '\'' ? "&#39;"
                        : std::string(1, c);
  return text;
}

/// Whether a fill value is given; None counts as not given in Jinja's filters.
static bool fills(const Value &fill) {
  return !fill.isUndefined() && !fill.isNone();
}

/// Returns rows of `linecount` elements.
static Value batch(const Value &input, const Arguments &arguments) {
  int64_t size = arguments.get(0, "linecount").integer();
  Value fill = arguments.get(1, "fill_with");
  if (size < 1)
    throw TemplateError{"a batch needs at least 1 element"};
  List rows, row;
  for (const Value &element : input.elements()) {
    if (int64_t(row.size()) == size)
      rows.push_back(std::exchange(row, {}));
    row.push_back(element);
  }
  if (row.empty())
    return rows;
  while (fills(fill) && int64_t(row.size()) < size) {
    WorkLimit::spend(sizeof(Value));
    row.push_back(fill);
  }
  rows.push_back(row);
  return rows;
}

/// The filter `slice`: divides a list into `slices` lists of consecutive
/// elements. If the elements cannot be divided evenly, the first lists have one
/// element more.
static Value slice(const Value &input, const Arguments &arguments) {
  List all = input.elements(), columns;
  int64_t count = arguments.get(0, "slices").integer();
  Value fill = arguments.get(1, "fill_with");
  if (count < 1 || count > 1 << 20)
    throw TemplateError{"a slice needs from 1 column on"};
  auto size = int64_t(all.size());
  for (int64_t i = 0, begin = 0; i < count; ++i) {
    bool isLonger = i < size % count;
    int64_t end = begin + size / count + isLonger;
    List column(all.begin() + begin, all.begin() + end);
    if (fills(fill) && !isLonger)
      column.push_back(fill);
    columns.push_back(column);
    begin = end;
  }
  return columns;
}

/// The filter `groupby`, which groups elements by the value of an attribute.
/// Returns pairs of a value and the elements that have it, sorted by value.
static Value groupBy(const Value &input, const Arguments &arguments) {
  List all = input.elements(), groups;
  Value attribute = arguments.get(0, "attribute"),
        fallback = arguments.get(1, "default");
  bool hasCase = arguments.get(2, "case_sensitive").truth();
  auto valueOf = [&](const Value &element) {
    Value found = attributeOf(element, attribute);
    return found.isUndefined() && fills(fallback) ? fallback : found;
  };
  auto keyOf = [&](const Value &element) {
    return caseless(valueOf(element), hasCase);
  };
  sortBy(all, /*isReversed=*/false, keyOf);
  Value last;
  for (const Value &element : all) {
    Value key = keyOf(element);
    if (groups.empty() || !(key == last))
      groups.push_back(Value::tuple({valueOf(element), List()}));
    groups.back().list()[1].list().push_back(element);
    last = key;
  }
  return groups;
}

static Value sum(const Value &input, const Arguments &arguments) {
  Value attribute = arguments.get(0, "attribute");
  if (attribute.isNone())
    attribute = Value();
  Value total = arguments.get(1, "start");
  if (total.isUndefined())
    total = int64_t(0);
  for (const Value &element : input.elements())
    total = add(total, attributeOf(element, attribute));
  return total;
}

static Value truncate(const Value &input, const Arguments &arguments) {
  Value given = arguments.get(0, "length"), mark = arguments.get(2, "end"),
        leeway = arguments.get(3, "leeway");
  std::string end = mark.isUndefined() ? "..." : mark.string();
  int64_t length =
      given.isUndefined() ? 255 : std::max<int64_t>(given.integer(), -1);
  int64_t more = fills(leeway) ? leeway.integer() : 5;
  if (more < 0)
    throw TemplateError{"a leeway is not less than 0"};
  int64_t room = length - Value(end).length();
  if (room < 0)
    throw TemplateError{"a text cannot be truncated to less than its end"};
  List all = Value(input.str()).elements();
  auto size = int64_t(all.size());
  if (size - std::min(length, size) <= more)
    return input.str();
  std::string text;
  for (int64_t i = 0; i < std::min(room, size); ++i)
    text += all[i].string();
  size_t space = text.rfind(' ');
  if (!arguments.get(1, "killwords").truth() && space != std::string::npos)
    text.resize(space);
  return text + end;
}

/// The filter `attr`: returns a member, never an element.
static Value attr(const Value &input, const Arguments &arguments) {
  std::string name = arguments.get(0, "name").string();
  Value found = memberOf(input, name);
  return input.isDict() && !found.isFunction() ? Value(Value::Undefined{name})
                                               : found;
}

static Value wordCount(const Value &input, const Arguments &) {
  int64_t count = 0;
  bool isInWord = false;
  unicode::forEach(input.str(), [&](unicode::Character character, size_t) {
    uint32_t code = character.code;
    bool isWord =
        unicode::isLetter(code) || unicode::isNumber(code) || code == '_';
    count += isWord && !isInWord;
    isInWord = isWord;
  });
  return count;
}

static Value center(const Value &input, const Arguments &arguments) {
  Value width = arguments.get(0, "width");
  return memberOf(input.str(), "center")
      .call({{width.isUndefined() ? Value(int64_t(80)) : width}, {}});
}

static Value format(const Value &input, const Arguments &arguments) {
  if (arguments.named.empty())
    return formatPercent(input.str(), Value::tuple(arguments.positional));
  if (!arguments.positional.empty())
    throw TemplateError{"a format has values with names, or without"};
  return formatPercent(input.str(),
                       Dict(arguments.named.begin(), arguments.named.end()));
}

static std::string quoted(const Value &value, bool isPart) {
  std::string text;
  for (char c : value.str()) {
    if (std::isalnum(static_cast<unsigned char>(c)) ||
        std::string_view("_.-~").find(c) != std::string::npos ||
        (c == '/' && !isPart)) {
      text += c;
    } else if (c == ' ' && isPart) {
      text += '+';
    } else {
      char code[4];
      std::snprintf(code, sizeof code, "%%%02X", static_cast<uint8_t>(c));
      text += code;
    }
  }
  return text;
}

static Value urlEncode(const Value &input, const Arguments &) {
  if (!input.isDict() && !input.isList())
    return quoted(input, false);
  List pairs = input.isDict() ? items(input, {}).list() : input.list();
  std::string text;
  for (const Value &pair : pairs)
    text += (text.empty() ? "" : "&") + quoted(pair.list()[0], true) + "=" +
            quoted(pair.list()[1], true);
  return text;
}

Filter jinja::findFilter(const std::string &name) {
  static const std::map<std::string, Filter> filters = {
      {"trim", method<stripName>},
      {"upper", method<upperName>},
      {"lower", method<lowerName>},
      {"title", title},
      {"capitalize", method<capitalizeName>},
      {"replace", method<replaceName>},
      {"length", length},
      {"count", length},
      {"tojson", toJson},
      {"join", join},
      {"first", first},
      {"last", last},
      {"default", orDefault},
      {"d", orDefault},
      {"string", string},
      {"int", toInteger},
      {"float", toFloat},
      {"list", list},
      {"items", items},
      {"dictsort", dictSort},
      {"sort", sort},
      {"unique", unique},
      {"min", extreme<false>},
      {"max", extreme<true>},
      {"reverse", reverse},
      {"map", map},
      {"select", select<true, false>},
      {"reject", select<false, false>},
      {"selectattr", select<true, true>},
      {"rejectattr", select<false, true>},
      {"indent", indent},
      {"abs", absolute},
      {"round", rounded},
      {"safe", same},
      {"escape", escape},
      {"e", escape},
      {"forceescape", escape},
      {"attr", attr},
      {"batch", batch},
      {"center", center},
      {"format", format},
      {"groupby", groupBy},
      {"slice", slice},
      {"sum", sum},
      {"truncate", truncate},
      {"urlencode", urlEncode},
      {"wordcount", wordCount}};
  return findByName(filters, "filter", name);
}
