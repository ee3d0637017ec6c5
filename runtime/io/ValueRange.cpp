//===- ValueRange.cpp - Ranges of flags and configuration keys ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/ValueRange.h"
#include <algorithm>
#include <charconv>

using namespace heddle;
using namespace heddle::io;

ValueRange ValueRange::integers(int64_t least, uint64_t most) {
  ValueRange range;
  range.kind = Kind::Integers;
  range.leastInteger = least;
  range.mostInteger = most;
  return range;
}

ValueRange ValueRange::numbersFrom(double least) {
  return numbers(least, std::numeric_limits<double>::max());
}

ValueRange ValueRange::numbers(double least, double most, bool belowMost) {
  ValueRange range;
  range.kind = Kind::Numbers;
  range.least = least;
  range.most = most;
  range.belowMost = belowMost;
  return range;
}

ValueRange ValueRange::choices(std::vector<std::string> all) {
  ValueRange range;
  range.kind = Kind::Choices;
  range.all = std::move(all);
  return range;
}

ValueRange ValueRange::text(std::string what) {
  return matching(std::move(what),
                  [](const std::string &value) { return !value.empty(); });
}

ValueRange ValueRange::matching(std::string what,
                                bool (*matches)(const std::string &)) {
  ValueRange range;
  range.what = std::move(what);
  range.matches = matches;
  return range;
}

std::string io::shortestDigits(double value) {
  char buffer[32];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

std::string ValueRange::describe() const {
  std::string text;
  switch (kind) {
  case Kind::Integers:
    return "a whole number from " + std::to_string(leastInteger) + " to " +
           std::to_string(mostInteger);
  case Kind::Numbers:
    text = "a number from " + shortestDigits(least);
    if (most < std::numeric_limits<double>::max())
      text += (belowMost ? " to below " : " to ") + shortestDigits(most);
    return text;
  case Kind::Choices:
    for (const std::string &choice : all)
      text += (text.empty() ? "one of " : ", ") + choice;
    return text;
  case Kind::Matching:
    return what;
  }
  return text;
}

bool ValueRange::takeInteger(std::string &value) const {
  bool isNegative = !value.empty() && value[0] == '-';
  uint64_t magnitude = 0;
  const char *begin = value.data() + isNegative;
  const char *end = value.data() + value.size();
  auto [stop, error] = std::from_chars(begin, end, magnitude);
  if (begin == end || stop != end || error != std::errc())
    return false;
  if (isNegative && magnitude > 0) {
    bool fits = magnitude <= uint64_t(std::numeric_limits<int64_t>::max());
    if (!fits || -int64_t(magnitude) < leastInteger)
      return false;
    value = "-" + std::to_string(magnitude);
    return true;
  }
  value = std::to_string(magnitude);
  bool overLeast = leastInteger < 0 || magnitude >= uint64_t(leastInteger);
  return overLeast && magnitude <= mostInteger;
}

bool ValueRange::take(std::string &value) const {
  double number = 0;
  const char *end = value.data() + value.size();
  switch (kind) {
  case Kind::Integers:
    return takeInteger(value);
  case Kind::Numbers: {
    auto [stop, error] = std::from_chars(value.data(), end, number);
    return !value.empty() && stop == end && error == std::errc() &&
           holds(number);
  }
  case Kind::Choices:
  case Kind::Matching:
    return holds(value);
  }
  return false;
}

bool ValueRange::holds(int64_t value) const {
  if (kind == Kind::Numbers)
    return holds(double(value));
  return value >= leastInteger && (value < 0 || uint64_t(value) <= mostInteger);
}

bool ValueRange::holds(double value) const {
  return value >= least && (belowMost ? value < most : value <= most);
}

bool ValueRange::holds(const std::string &value) const {
  if (kind == Kind::Choices)
    return std::find(all.begin(), all.end(), value) != all.end();
  return !matches || matches(value);
}

ValueRange range::seed() {
  return ValueRange::integers(0, std::numeric_limits<uint64_t>::max());
}

ValueRange range::threads() { return ValueRange::integers(1, 1024); }

ValueRange range::count(int64_t least) {
  return ValueRange::integers(least, 1000000000000);
}

ValueRange range::joinTimeout() { return ValueRange::integers(1, 86400); }

ValueRange range::path() { return ValueRange::text("a path"); }

ValueRange range::text() {
  return ValueRange::text("a text of a character or more");
}
