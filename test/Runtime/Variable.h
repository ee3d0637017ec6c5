//===- Variable.h - Variables of the environment in tests -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_VARIABLE_H
#define HEDDLE_TEST_RUNTIME_VARIABLE_H

#include <cstdlib>
#include <optional>
#include <string>

namespace heddle::test {

/// A variable of the environment, until this object goes.
class Variable {
public:
  Variable(const char *name, const std::string &value) : name(name) {
    if (const char *old = getenv(name))
      before = old;
    setenv(name, value.c_str(), /*overwrite=*/1);
  }
  Variable(const Variable &) = delete;
  Variable &operator=(const Variable &) = delete;
  ~Variable() {
    if (before)
      setenv(name, before->c_str(), /*overwrite=*/1);
    else
      unsetenv(name);
  }

private:
  const char *name;
  std::optional<std::string> before;
};

} // namespace heddle::test

#endif // HEDDLE_TEST_RUNTIME_VARIABLE_H
