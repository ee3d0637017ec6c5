//===- Methods.h - Methods of template values -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Methods that templates may call on strings, lists and dictionaries, with
// Python's behavior; and the look-up of filters and tests by name.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TEMPLATE_METHODS_H
#define HEDDLE_RUNTIME_IO_TEMPLATE_METHODS_H

#include "Value.h"

namespace heddle::io::jinja {

using Method = Value (*)(const Value &self, const Arguments &arguments);
using MethodTable = std::map<std::string, Method>;
/// Returns the methods of Python's str.
const MethodTable &textMethods();

/// Limit of characters to which a text may be padded.
inline constexpr int64_t widestText = 1 << 20;
/// Returns `fill` repeated `times` times.
std::string filling(const std::string &fill, int64_t times);
/// Concatenates `textOf` of the elements, with `separator` between them.
std::string joined(const List &elements, const std::string &separator,
                   const std::function<std::string(const Value &)> &textOf);

/// Python's format(value, spec).
std::string formatValue(const Value &value, const std::string &spec);
/// Python's text.format(...).
Value formatMethod(const Value &self, const Arguments &arguments);
/// Python's `text % values`, where `values` is a tuple, a dictionary, or one
/// value.
std::string formatPercent(const std::string &text, const Value &values);

/// Returns the entry `name` of the table `all`; throws if there is none.
template <typename Entry>
Entry findByName(const std::map<std::string, Entry> &all, const char *kind,
                 const std::string &name) {
  auto it = all.find(name);
  if (it != all.end())
    return it->second;
  std::vector<std::string> names;
  std::string list;
  for (const auto &[known, entry] : all) {
    names.push_back(known);
    list += (list.empty() ? "" : ", ") + known;
  }
  std::string near = heddle::closestMatch(name, names);
  throw TemplateError{std::string("there is no ") + kind + " '" + name + "'",
                      {},
                      (near.empty() ? "" : "did you mean '" + near + "'? ") +
                          "the " + kind + "s are " + list};
}

} // namespace heddle::io::jinja

#endif // HEDDLE_RUNTIME_IO_TEMPLATE_METHODS_H
