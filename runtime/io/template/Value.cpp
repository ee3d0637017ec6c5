//===- Value.cpp - Values of chat templates -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversion of values to text and JSON, comparison, and element access.
//
//===----------------------------------------------------------------------===//

#include "Value.h"
#include "WorkLimit.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"
#include <cmath>

using namespace heddle::io;
using namespace heddle::io::jinja;

Value Arguments::get(size_t index, const char *name) const {
  if (index < positional.size())
    return positional[index];
  auto it = named.find(name);
  return it == named.end() ? Value() : it->second;
}

namespace {
/// Deletes shared values one by one instead of recursively, so that deep
/// nesting does not need stack.
struct Delete {
  template <typename T> void operator()(T *shared) const {
    using Object = std::remove_const_t<T>;
    queue(const_cast<Object *>(shared),
          [](void *object) { delete static_cast<Object *>(object); });
  }

private:
  static void queue(void *object, void (*destroy)(void *)) {
    static thread_local std::vector<std::pair<void *, void (*)(void *)>>
        waiting;
    static thread_local bool isBusy = false;
    waiting.emplace_back(object, destroy);
    if (isBusy)
      return;
    isBusy = true;
    while (!waiting.empty()) {
      auto [next, destroyNext] = waiting.back();
      waiting.pop_back();
      destroyNext(next);
    }
    isBusy = false;
  }
};
} // namespace

template <typename T> static std::shared_ptr<T> shared(T held) {
  return {new T(std::move(held)), Delete()};
}

/// The bytes that a string, list, dictionary or function adds to the memory
/// that WorkLimit counts, in addition to its content.
static constexpr int64_t overhead = 16;

Value::Value(std::string s) : data(std::move(s)) {
  WorkLimit::spend(overhead + int64_t(string().size()));
}
Value::Value(List held) : data(shared(std::move(held))) {
  WorkLimit::spend(overhead + int64_t(list().size() * sizeof(Value)));
}
Value::Value(Dict held) : data(shared(std::move(held))) {
  WorkLimit::spend(overhead +
                   int64_t(dict().size() * sizeof(Dict::value_type)));
}
Value::Value(Function function)
    : data(std::shared_ptr<const Function>(new Function(std::move(function)),
                                           Delete())) {
  WorkLimit::spend(overhead);
}

Value Value::fromJson(const nlohmann::ordered_json &json) {
  WorkLimit::deepen();
  switch (json.type()) {
  case nlohmann::ordered_json::value_t::null:
    return None{};
  case nlohmann::ordered_json::value_t::boolean:
    return json.get<bool>();
  case nlohmann::ordered_json::value_t::number_integer:
  case nlohmann::ordered_json::value_t::number_unsigned:
    return json.get<int64_t>();
  case nlohmann::ordered_json::value_t::number_float:
    return json.get<double>();
  case nlohmann::ordered_json::value_t::string:
    return json.get<std::string>();
  case nlohmann::ordered_json::value_t::array: {
    List list;
    for (const auto &element : json)
      list.push_back(fromJson(element));
    return list;
  }
  default: {
    Dict dict;
    for (const auto &[key, value] : json.items())
      dict.emplace_back(key, fromJson(value));
    return dict;
  }
  }
}

std::string Value::kind() const {
  static const char *const names[] = {"nothing",  "none",         "a boolean",
                                      "a number", "a number",     "a text",
                                      "a list",   "a dictionary", "a function"};
  if (const auto *undefined = std::get_if<Undefined>(&data))
    return undefined->name.empty()
               ? "a value that is not defined"
               : "'" + undefined->name + "', which is not defined";
  return names[data.index()];
}

template <typename T, typename Data>
static auto &expect(Data &data, const Value &value, const char *what) {
  if (auto *held = std::get_if<T>(&data))
    return *held;
  throw TemplateError{std::string(what) + " is needed, not " + value.kind()};
}

const std::string &Value::string() const {
  return expect<std::string>(data, *this, "a text");
}
int64_t Value::integer() const {
  if (const bool *flag = std::get_if<bool>(&data))
    return *flag;
  return expect<int64_t>(data, *this, "a whole number");
}
double Value::number() const {
  const auto *real = std::get_if<double>(&data);
  return real ? *real : static_cast<double>(integer());
}
List &Value::list() const {
  return *expect<std::shared_ptr<List>>(data, *this, "a list");
}
Dict &Value::dict() const {
  return *expect<std::shared_ptr<Dict>>(data, *this, "a dictionary");
}
Value Value::call(const Arguments &arguments) const {
  if (isDict() && at(callKey).isFunction())
    return at(callKey).call(arguments);
  return (*expect<std::shared_ptr<const Function>>(data, *this, "a function"))(
      arguments);
}

int64_t jinja::wholeOf(const Value &number) {
  if (!number.is<double>())
    return number.integer();
  if (!(std::fabs(number.number()) < 0x1p63))
    throw TemplateError{"a number is too large"};
  return static_cast<int64_t>(number.number());
}

bool Value::truth() const {
  if (isUndefined() || isNone())
    return false;
  if (isNumber())
    return number() != 0;
  return isFunction() || length() != 0;
}

int64_t Value::length() const {
  if (isList())
    return static_cast<int64_t>(list().size());
  if (isDict())
    return static_cast<int64_t>(dict().size());
  if (isUndefined())
    return 0;
  WorkLimit::spend(int64_t(string().size()));
  int64_t count = 0;
  unicode::forEach(string(), [&](unicode::Character, size_t) { ++count; });
  return count;
}

List Value::elements() const {
  if (isUndefined())
    return {};
  if (isList()) {
    WorkLimit::spend(int64_t(list().size()));
    return list();
  }
  List all;
  if (isDict()) {
    for (const auto &[key, value] : dict())
      all.push_back(key);
    return all;
  }
  unicode::forEach(string(), [&](unicode::Character character, size_t at) {
    all.push_back(string().substr(at, character.length));
  });
  return all;
}

Value Value::at(const Value &key) const {
  if (isDict() && key.isString()) {
    WorkLimit::spend(int64_t(dict().size()) / 4);
    for (const auto &[name, value] : dict())
      if (name == key.string())
        return value;
    return Undefined{key.string()};
  }
  if ((isList() || isString()) && (key.is<int64_t>() || key.is<bool>())) {
    int64_t size = length();
    int64_t index = key.integer() + (key.integer() < 0 ? size : 0);
    if (index < 0 || index >= size)
      return Value();
    if (isList())
      return list()[index];
    WorkLimit::spend(size);
    std::string found;
    unicode::forEach(string(), [&](unicode::Character character, size_t at) {
      if (index-- == 0)
        found = string().substr(at, character.length);
    });
    return found;
  }
  // A pair that the filter groupby returns has the members `grouper` and
  // `list`.
  if (isTuple() && list().size() == 2 && key.isString() &&
      (key.string() == "grouper" || key.string() == "list"))
    return list()[key.string() == "list"];
  if (isUndefined())
    throw TemplateError{kind() + " has no members"};
  return Undefined{key.isString() ? key.string() : key.repr()};
}

void Value::set(const std::string &key, Value value) {
  WorkLimit::spend(int64_t(dict().size()) / 4);
  for (auto &[name, old] : dict())
    if (name == key) {
      old = std::move(value);
      return;
    }
  dict().emplace_back(key, std::move(value));
}

bool Value::contains(const Value &element) const {
  if (isString())
    return string().find(element.string()) != std::string::npos;
  for (const Value &mine : elements())
    if (mine == element)
      return true;
  return false;
}

bool Value::operator==(const Value &other) const {
  WorkLimit::spend(4);
  WorkLimit::deepen();
  if (isNumber() && other.isNumber())
    return number() == other.number();
  if (data.index() != other.data.index())
    return false;
  if (isString())
    return string() == other.string();
  if (isList())
    return isTuple() == other.isTuple() && list() == other.list();
  if (isDict()) {
    bool same = dict().size() == other.dict().size();
    for (const auto &[key, value] : dict())
      same = same && other.at(key) == value;
    return same;
  }
  return isNone() || isUndefined();
}

bool Value::operator<(const Value &other) const {
  WorkLimit::spend(4);
  WorkLimit::deepen();
  if (isNumber() && other.isNumber())
    return number() < other.number();
  if (isString() && other.isString())
    return string() < other.string();
  if (isList() && other.isList())
    return list() < other.list();
  throw TemplateError{kind() + " cannot be compared with " + other.kind()};
}

/// Returns the shortest digits that parse to the number, as Python writes them.
static std::string digitsOf(double number) {
  if (std::isinf(number))
    return number < 0 ? "-inf" : "inf";
  if (std::isnan(number))
    return "nan";
  return nlohmann::json(number).dump();
}

std::string Value::str() const {
  return isString() ? string() : isUndefined() ? "" : repr();
}

std::string Value::repr() const {
  WorkLimit::spend(overhead);
  WorkLimit::deepen();
  if (isNone())
    return "None";
  if (const bool *flag = std::get_if<bool>(&data))
    return *flag ? "True" : "False";
  if (is<int64_t>())
    return std::to_string(integer());
  if (is<double>())
    return digitsOf(number());
  std::string text;
  auto separate = [&] { text += text.size() > 1 ? ", " : ""; };
  if (isList()) {
    text = isTuple() ? "(" : "[";
    for (const Value &element : list()) {
      separate();
      text += element.repr();
    }
    WorkLimit::spend(int64_t(text.size()));
    return text + (!isTuple() ? "]" : list().size() == 1 ? ",)" : ")");
  }
  if (isDict()) {
    text = "{";
    for (const auto &[key, value] : dict()) {
      separate();
      text += Value(key).repr() + ": " + value.repr();
    }
    WorkLimit::spend(int64_t(text.size()));
    return text + "}";
  }
  if (!isString())
    return isUndefined() ? "Undefined" : "<function>";
  bool hasSingle = string().find('\'') != std::string::npos;
  char quote =
      hasSingle && string().find('"') == std::string::npos ? '"' : '\'';
  text = quote;
  unicode::forEach(string(), [&](unicode::Character character, size_t at) {
    uint32_t code = character.code;
    char escape[12] = "\\?";
    if (code == '\n' || code == '\t' || code == '\r')
      escape[1] = code == '\n' ? 'n' : code == '\t' ? 't' : 'r';
    else if (code == uint32_t(quote) || code == '\\')
      escape[1] = char(code);
    else if (!unicode::isGraphic(code) && code != ' ')
      std::snprintf(escape, sizeof escape,
                    code < 0x100     ? "\\x%02x"
                    : code < 0x10000 ? "\\u%04x"
                                     : "\\U%08x",
                    code);
    text += escape[1] == '?' ? string().substr(at, character.length) : escape;
  });
  return text + quote;
}

static Dict sorted(Dict dict) {
  std::sort(dict.begin(), dict.end(),
            [](const auto &a, const auto &b) { return a.first < b.first; });
  return dict;
}

void Value::writeJson(std::string &out, const JsonStyle &style,
                      int depth) const {
  WorkLimit::spend(overhead);
  WorkLimit::deepen();
  auto line = [&](int at) {
    if (style.indent < 0)
      return;
    WorkLimit::spend(int64_t(style.indent) * at);
    out += "\n" + std::string(static_cast<size_t>(style.indent) * at, ' ');
  };
  if (isList() || isDict()) {
    bool isFirst = true;
    auto begin = [&] {
      out += isFirst ? "" : style.comma;
      isFirst = false;
      line(depth + 1);
    };
    out += isList() ? "[" : "{";
    if (isList())
      for (const Value &element : list()) {
        begin();
        element.writeJson(out, style, depth + 1);
      }
    else
      for (const auto &[key, value] :
           style.sortsKeys ? sorted(dict()) : dict()) {
        begin();
        Value(key).writeJson(out, style, depth + 1);
        out += style.colon;
        value.writeJson(out, style, depth + 1);
      }
    if (!isFirst)
      line(depth);
    out += isList() ? "]" : "}";
    return;
  }
  if (isUndefined() || isFunction())
    throw TemplateError{kind() + " cannot be written as JSON"};
  if (isString())
    WorkLimit::spend(int64_t(string().size()));
  if (isString())
    out += nlohmann::json(string()).dump(
        -1, ' ', style.isAscii, nlohmann::json::error_handler_t::replace);
  else if (isNone())
    out += "null";
  else if (is<bool>())
    out += truth() ? "true" : "false";
  else
    out += repr();
}

std::string Value::json(const JsonStyle &style) const {
  std::string out;
  writeJson(out, style, 0);
  return out;
}
