//===- OptimizerTexts.h - Optimizers' kernels for tests ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_KERNELS_OPTIMIZERTEXTS_H
#define HEDDLE_TEST_UNIT_KERNELS_OPTIMIZERTEXTS_H

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::test {

/// A step of an optimizer, as training makes it: of states in f32, with the
/// parameters in bf16 beside them. Its body makes %0, %1 and so on.
struct UpdateText {
  std::string arguments, body;
  std::vector<std::string> results;
  std::vector<int64_t> bytes; ///< Of arguments and results.

  /// The types of the results, and the values that the body makes.
  std::string types() const;
  std::string values() const;
};

/// `positive` is put behind the types of arguments that have no sign. With a
/// `condition`, one of the scalars, the step depends on it.
UpdateText adamText(int64_t size, const std::string &gradient,
                    const std::string &positive = "",
                    const std::string &condition = "");
UpdateText lionText(int64_t size, const std::string &gradient,
                    const std::string &positive = "");
UpdateText lambText(int64_t size, const std::string &gradient,
                    const std::string &positive = "");

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_KERNELS_OPTIMIZERTEXTS_H
