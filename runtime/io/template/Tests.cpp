//===- Tests.cpp - Tests of chat templates --------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Jinja's tests, `value is test`.
//
//===----------------------------------------------------------------------===//

#include "Methods.h"

using namespace heddle::io;
using namespace heddle::io::jinja;

static bool isLess(const Value &value, const Arguments &arguments) {
  return value < arguments.get(0, "other");
}
static bool isGreater(const Value &value, const Arguments &arguments) {
  return arguments.get(0, "other") < value;
}
static bool isNotGreater(const Value &value, const Arguments &arguments) {
  return !isGreater(value, arguments);
}
static bool isNotLess(const Value &value, const Arguments &arguments) {
  return !isLess(value, arguments);
}

/// Whether a filter or test with that name exists.
template <typename Entry, Entry (*find)(const std::string &)>
static bool isKnown(const Value &value, const Arguments &) {
  try {
    find(value.string());
    return true;
  } catch (const TemplateError &) {
    return false;
  }
}

/// A test that calls a method of strings.
template <const char *name>
static bool is(const Value &value, const Arguments &) {
  return memberOf(value.str(), name).call({}).truth();
}
static constexpr char islowerName[] = "islower", isupperName[] = "isupper";

Test jinja::findTest(const std::string &name) {
  using A = Arguments;
  using V = Value;
  static const std::map<std::string, Test> tests = {
      {"defined", [](const V &v, const A &) { return !v.isUndefined(); }},
      {"undefined", [](const V &v, const A &) { return v.isUndefined(); }},
      {"none", [](const V &v, const A &) { return v.isNone(); }},
      {"boolean", [](const V &v, const A &) { return v.is<bool>(); }},
      {"true", [](const V &v, const A &) { return v.is<bool>() && v.truth(); }},
      {"false",
       [](const V &v, const A &) { return v.is<bool>() && !v.truth(); }},
      {"string", [](const V &v, const A &) { return v.isString(); }},
      {"number", [](const V &v, const A &) { return v.isNumber(); }},
      {"integer", [](const V &v, const A &) { return v.is<int64_t>(); }},
      {"float", [](const V &v, const A &) { return v.is<double>(); }},
      {"mapping", [](const V &v, const A &) { return v.isDict(); }},
      {"iterable",
       [](const V &v, const A &) {
         return v.isList() || v.isDict() || v.isString() || v.isUndefined();
       }},
      {"sequence",
       [](const V &v, const A &) {
         return v.isList() || v.isDict() || v.isString() || v.isUndefined();
       }},
      {"callable", [](const V &v, const A &) { return v.isFunction(); }},
      {"escaped", [](const V &, const A &) { return false; }},
      {"filter", isKnown<Filter, findFilter>},
      {"test", isKnown<Test, findTest>},
      {"lower", is<islowerName>},
      {"upper", is<isupperName>},
      {"sameas",
       [](const V &v, const A &a) { return v.isSameAs(a.get(0, "other")); }},
      {"odd", [](const V &v, const A &) { return v.integer() % 2 != 0; }},
      {"even", [](const V &v, const A &) { return v.integer() % 2 == 0; }},
      {"divisibleby",
       [](const V &v, const A &a) {
         int64_t by = a.get(0, "num").integer();
         // Every integer is divisible by -1; to divide the smallest integer by
         // -1 would overflow.
         return by == -1 || (by != 0 && v.integer() % by == 0);
       }},
      {"equalto",
       [](const V &v, const A &a) { return v == a.get(0, "other"); }},
      {"eq", [](const V &v, const A &a) { return v == a.get(0, "other"); }},
      {"==", [](const V &v, const A &a) { return v == a.get(0, "other"); }},
      {"ne", [](const V &v, const A &a) { return !(v == a.get(0, "other")); }},
      {"!=", [](const V &v, const A &a) { return !(v == a.get(0, "other")); }},
      {"lt", isLess},
      {"lessthan", isLess},
      {"<", isLess},
      {"gt", isGreater},
      {"greaterthan", isGreater},
      {">", isGreater},
      {"le", isNotGreater},
      {"<=", isNotGreater},
      {"ge", isNotLess},
      {">=", isNotLess},
      {"in",
       [](const V &v, const A &a) { return a.get(0, "seq").contains(v); }}};
  return findByName(tests, "test", name);
}
