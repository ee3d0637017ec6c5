//===- Value.h - Values of chat templates -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The values of chat templates: Python's types with their operators and text
// forms.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TEMPLATE_VALUE_H
#define HEDDLE_RUNTIME_IO_TEMPLATE_VALUE_H

#include "heddle/runtime/io/Diagnostic.h"
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <variant>

namespace heddle::io::jinja {

class Value;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<std::string, Value>>;
/// A map that keeps the order of insertion.
template <typename Entry>
class ByName : public std::vector<std::pair<std::string, Entry>> {
public:
  auto find(const std::string &name) const {
    return std::find_if(this->begin(), this->end(),
                        [&](const auto &one) { return one.first == name; });
  }
  bool has(const std::string &name) const { return find(name) != this->end(); }
  void set(const std::string &name, Entry entry) {
    for (auto &[known, old] : *this)
      if (known == name) {
        old = std::move(entry);
        return;
      }
    this->emplace_back(name, std::move(entry));
  }
};
/// The arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  ByName<Value> named;
  /// Returns the argument with the position `index` or the name `name`; an
  /// undefined value if the caller has given neither.
  Value get(size_t index, const char *name) const;
  bool has(size_t index, const char *name) const {
    return index < positional.size() || named.has(name);
  }
};
using Function = std::function<Value(const Arguments &)>;

/// How to write JSON: the options of Python's json.dumps.
struct JsonStyle {
  int indent = -1; ///< Blanks for each level; negative: all on one line.
  std::string comma = ", ", colon = ": ";
  bool isAscii = false, sortsKeys = false;
};

/// A value with Python's semantics; lists and dictionaries are shared by
/// reference. An undefined value is false, empty, and written as nothing.
class Value {
public:
  struct Undefined {
    std::string name;
  };
  struct None {};

  Value() : Value(Undefined{}) {}
  Value(Undefined u) : data(std::move(u)) {}
  Value(None n) : data(n) {}
  Value(bool b) : data(b) {}
  Value(int64_t i) : data(i) {}
  Value(double d) : data(d) {}
  Value(std::string s);
  Value(const char *s) : Value(std::string(s)) {}
  Value(List list);
  Value(Dict dict);
  Value(Function function);
  /// Creates a tuple: a list that is written with round brackets.
  static Value tuple(List elements) {
    Value value(std::move(elements));
    value.hasRoundBrackets = true;
    return value;
  }
  static Value fromJson(const nlohmann::ordered_json &json);

  template <typename T> bool is() const {
    return std::holds_alternative<T>(data);
  }
  bool isUndefined() const { return is<Undefined>(); }
  bool isNone() const { return is<None>(); }
  bool isString() const { return is<std::string>(); }
  bool isTuple() const { return isList() && hasRoundBrackets; }
  bool isList() const { return is<std::shared_ptr<List>>(); }
  bool isDict() const { return is<std::shared_ptr<Dict>>(); }
  bool isFunction() const { return is<std::shared_ptr<const Function>>(); }
  /// Whether copies of the value share its contents by reference.
  bool isShared() const { return isList() || isDict() || isFunction(); }
  /// Whether arithmetic accepts the value. Booleans count as numbers.
  bool isNumber() const { return is<int64_t>() || is<double>() || is<bool>(); }

  const std::string &string() const; ///< Throws unless it is one.
  int64_t integer() const;           ///< Throws unless it is one.
  double number() const;             ///< Throws unless it is one.
  List &list() const;                ///< Throws unless it is one.
  Dict &dict() const;                ///< Throws unless it is one.
  /// If a dictionary has a member of this name, the dictionary can be called,
  /// and the member is the function. No template can use the name.
  static constexpr const char *callKey = "()";
  Value call(const Arguments &arguments) const;

  bool truth() const;
  int64_t length() const;
  /// Returns elements of a list, keys of a dictionary, or characters of a text.
  List elements() const;
  /// Returns an element of a list or text, or the value of a key. Returns the
  /// template language's value `undefined` if there is no such element or key.
  Value at(const Value &key) const;
  void set(const std::string &key, Value value);
  bool contains(const Value &element) const;
  /// Whether this value and `other` have the same type and are equal.
  bool isSameAs(const Value &other) const {
    return data.index() == other.data.index() && *this == other;
  }
  bool operator==(const Value &other) const;
  bool operator<(const Value &other) const;

  /// Python's str() and repr().
  std::string str() const;
  std::string repr() const;
  /// Python's json.dumps().
  std::string json(const JsonStyle &style) const;
  /// Names the type, for example `a list`.
  std::string kind() const;

private:
  void writeJson(std::string &out, const JsonStyle &style, int depth) const;

  std::variant<Undefined, None, bool, int64_t, double, std::string,
               std::shared_ptr<List>, std::shared_ptr<Dict>,
               std::shared_ptr<const Function>>
      data;
  bool hasRoundBrackets = false;
};

/// A line and a column in a template, counted from 1; 0: unknown.
struct TemplatePosition {
  int line = 0, column = 0;
};

/// An error while a template is parsed or rendered. The position is added where
/// it is known.
struct TemplateError {
  std::string message;
  TemplatePosition place = {};
  std::string help = ""; ///< The message's help; empty: general help is shown.
};

/// Computes `a + b` of numbers, texts or lists.
Value add(const Value &a, const Value &b);
/// Applies the operator `sign`, such as "*", to two numbers, texts or lists.
Value compute(const std::string &sign, const Value &a, const Value &b);
bool compare(const std::string &sign, const Value &a, const Value &b);

/// Truncates a number to an integer.
int64_t wholeOf(const Value &number);

/// Returns the method or member of `value` that has this name.
Value memberOf(const Value &value, const std::string &name);

using Filter = Value (*)(const Value &input, const Arguments &arguments);
/// Throws for an unknown name.
Filter findFilter(const std::string &name);
using Test = bool (*)(const Value &input, const Arguments &arguments);
Test findTest(const std::string &name);

} // namespace heddle::io::jinja

#endif // HEDDLE_RUNTIME_IO_TEMPLATE_VALUE_H
