//===- Operators.cpp - Operators of chat templates ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Methods.h"
#include "WorkLimit.h"
#include <cmath>

using namespace heddle::io;
using namespace heddle::io::jinja;

/// Applies `compute` to two integers; throws if it reports an overflow.
template <typename Compute>
static Value whole(const Value &a, const Value &b, const Compute &compute) {
  int64_t result = 0;
  if (compute(a.integer(), b.integer(), &result))
    throw TemplateError{"a number is too large"};
  return result;
}

Value jinja::add(const Value &a, const Value &b) {
  if (a.isString() && b.isString())
    return a.string() + b.string();
  if (a.isList() && b.isList() && a.isTuple() == b.isTuple()) {
    List all = a.list();
    all.insert(all.end(), b.list().begin(), b.list().end());
    return a.isTuple() ? Value::tuple(all) : Value(all);
  }
  if (a.is<double>() || b.is<double>())
    return a.number() + b.number();
  if (!a.isNumber() || !b.isNumber())
    throw TemplateError{a.kind() + " and " + b.kind() + " cannot be added"};
  return whole(a, b, [](int64_t x, int64_t y, int64_t *result) {
    return __builtin_add_overflow(x, y, result);
  });
}

static Value multiply(const Value &a, const Value &b) {
  bool isRepeated = a.isString() || a.isList();
  if (!isRepeated && (b.isString() || b.isList()))
    return multiply(b, a);
  if (isRepeated) {
    constexpr int64_t most = 1 << 20;
    int64_t times = std::max<int64_t>(b.integer(), 0);
    if (times > most / std::max<int64_t>(a.length(), 1))
      throw TemplateError{"a repetition is too long"};
    WorkLimit::spend(times);
    std::string text;
    List all;
    for (int64_t i = 0; i < times; ++i)
      if (a.isString())
        text += a.string();
      else
        all.insert(all.end(), a.list().begin(), a.list().end());
    return a.isString() ? Value(text) : a.isTuple() ? Value::tuple(all) : all;
  }
  if (a.is<double>() || b.is<double>())
    return a.number() * b.number();
  return whole(a, b, [](int64_t x, int64_t y, int64_t *result) {
    return __builtin_mul_overflow(x, y, result);
  });
}

static Value subtract(const Value &a, const Value &b) {
  if (a.is<double>() || b.is<double>())
    return a.number() - b.number();
  return whole(a, b, [](int64_t x, int64_t y, int64_t *result) {
    return __builtin_sub_overflow(x, y, result);
  });
}

/// Python's division: rounds down; the remainder has the divisor's sign.
static Value divide(const std::string &sign, const Value &a, const Value &b) {
  if (b.number() == 0)
    throw TemplateError{"a division by 0"};
  if (sign == "/")
    return a.number() / b.number();
  double quotient = std::floor(a.number() / b.number());
  if (a.is<double>() || b.is<double>())
    return sign == "//" ? quotient : a.number() - quotient * b.number();
  int64_t x = a.integer(), y = b.integer();
  if (y == -1)
    return sign == "//" ? subtract(int64_t(0), a) : Value(int64_t(0));
  int64_t down = x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
  return sign == "//" ? down : x - down * y;
}

static Value power(const Value &a, const Value &b) {
  double result = std::pow(a.number(), b.number());
  bool isWhole = !a.is<double>() && !b.is<double>() && b.integer() >= 0 &&
                 std::fabs(result) < 9e15;
  return isWhole ? Value(static_cast<int64_t>(result)) : Value(result);
}

Value jinja::compute(const std::string &sign, const Value &a, const Value &b) {
  if (sign == "+")
    return add(a, b);
  if (sign == "-")
    return subtract(a, b);
  if (sign == "~")
    return a.str() + b.str();
  if (sign == "*")
    return multiply(a, b);
  if (sign == "%" && a.isString())
    return formatPercent(a.string(), b);
  return sign == "**" ? power(a, b) : divide(sign, a, b);
}

bool jinja::compare(const std::string &sign, const Value &a, const Value &b) {
  if (sign == "==" || sign == "!=")
    return (a == b) == (sign == "==");
  if (sign == "in" || sign == "not in")
    return b.contains(a) == (sign == "in");
  if (sign == "<" || sign == ">=")
    return (a < b) == (sign == "<");
  return (b < a) == (sign == ">");
}
