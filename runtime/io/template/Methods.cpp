//===- Methods.cpp - Methods of template values ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Methods.h"
#include "WorkLimit.h"

#include <algorithm>

using namespace heddle::io;
using namespace heddle::io::jinja;

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

static Value copy(const Value &self, const Arguments &) {
  return self.isDict() ? Value(self.dict()) : Value(self.list());
}

static Value count(const Value &self, const Arguments &arguments) {
  const List &all = self.list();
  return int64_t(std::count(all.begin(), all.end(), arguments.get(0, "value")));
}
static Value index(const Value &self, const Arguments &arguments) {
  const List &all = self.list();
  auto found = std::find(all.begin(), all.end(), arguments.get(0, "value"));
  if (found == all.end())
    throw TemplateError{"an element is not in the list"};
  return int64_t(found - all.begin());
}

static Value append(const Value &self, const Arguments &arguments) {
  Value object = arguments.get(0, "object");
  WorkLimit::spend(sizeof(Value));
  self.list().push_back(object);
  if (object.isShared())
    WorkLimit::mayHoldItself(self);
  return Value::None{};
}

Value jinja::memberOf(const Value &value, const std::string &name) {
  static const MethodTable ofDict = {{"items", items},
                                     {"keys", keys},
                                     {"values", values},
                                     {"get", get},
                                     {"copy", copy}};
  static const MethodTable ofList = {
      {"append", append}, {"count", count}, {"index", index}, {"copy", copy}};
  const auto &methods = value.isString() ? textMethods()
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
