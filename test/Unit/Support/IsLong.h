//===- IsLong.h - What only long test runs do -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_SUPPORT_ISLONG_H
#define HEDDLE_TEST_UNIT_SUPPORT_ISLONG_H

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace heddle::test {

/// Whether HEDDLE_TEST_LONG=1 asks for what takes long.
inline bool isLong() {
  const char *value = std::getenv("HEDDLE_TEST_LONG");
  return value && value[0] == '1';
}

/// The cases of a test: `always`, and with HEDDLE_TEST_LONG=1 `others` too.
template <typename T = int64_t>
std::vector<T> casesOf(std::vector<T> always, const std::vector<T> &others) {
  if (isLong())
    always.insert(always.end(), others.begin(), others.end());
  return always;
}

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_SUPPORT_ISLONG_H
