//===- ValueRange.h - Ranges of flags and configuration keys ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Describes and checks the values of flags and of configuration keys, so that
// both have the same errors.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_VALUERANGE_H
#define HEDDLE_RUNTIME_IO_VALUERANGE_H

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace heddle::io {

/// Returns the shortest digits that parse to the number.
std::string shortestDigits(double value);

/// The values that a flag, or a key of a configuration file, accepts.
class ValueRange {
public:
  /// Accepts decimal integers from `least` to `most`.
  static ValueRange integers(int64_t least, uint64_t most);
  /// Accepts finite numbers >= `least`.
  static ValueRange numbersFrom(double least);
  /// Accepts numbers from `least` to `most`. `belowMost` excludes `most`
  /// itself.
  static ValueRange numbers(double least, double most, bool belowMost = false);
  static ValueRange choices(std::vector<std::string> all);
  /// Accepts any text that is not empty; `what` describes it, such as "a path".
  static ValueRange text(std::string what);
  /// Accepts texts for which `matches` is true.
  static ValueRange matching(std::string what,
                             bool (*matches)(const std::string &));

  /// Describes the range, for example "a whole number from 1 to 1024".
  std::string describe() const;
  /// Whether `value`, as the user wrote it, is in range. Removes leading zeros
  /// of an integer, which some readers take for octal.
  bool take(std::string &value) const;
  bool holds(int64_t value) const;
  bool holds(double value) const;
  bool holds(const std::string &value) const;

private:
  enum class Kind { Integers, Numbers, Choices, Matching };
  ValueRange() = default;
  bool takeInteger(std::string &value) const;

  Kind kind = Kind::Matching;
  int64_t leastInteger = 0;
  uint64_t mostInteger = 0;
  double least = 0, most = std::numeric_limits<double>::max();
  bool belowMost = false;
  std::vector<std::string> all;
  std::string what;
  bool (*matches)(const std::string &) = nullptr;
};

/// Ranges that flags of the driver and of binaries share.
namespace range {
/// Seeds of random generators.
ValueRange seed();
/// Threads of a rank.
ValueRange threads();
/// Numbers of steps, rows, batches or tokens, >= `least`.
ValueRange count(int64_t least);
/// Seconds that a rank waits for the others at the start.
ValueRange joinTimeout();
ValueRange path();
ValueRange text();
} // namespace range

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_VALUERANGE_H
