//===- FindByName.h - Look up filters and tests -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TEMPLATE_FINDBYNAME_H
#define HEDDLE_RUNTIME_IO_TEMPLATE_FINDBYNAME_H

#include "Value.h"

namespace heddle::io::jinja {

/// Returns the entry of a name; throws for an unknown one.
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

#endif // HEDDLE_RUNTIME_IO_TEMPLATE_FINDBYNAME_H
