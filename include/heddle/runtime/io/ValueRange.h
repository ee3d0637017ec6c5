//===- ValueRange.h - The values that a flag or a key takes -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_VALUERANGE_H
#define HEDDLE_RUNTIME_IO_VALUERANGE_H

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace heddle::io {

/// The values that a flag, or a key of a configuration file, takes.
class ValueRange {
public:
  /// Whole numbers in decimal digits, from `least` to `most`.
  static ValueRange integers(int64_t least, uint64_t most);
  /// Finite numbers from `least` on.
  static ValueRange numbersFrom(double least);
  /// Numbers from `least` to `most`, or to just below it.
  static ValueRange numbers(double least, double most, bool belowMost = false);
  static ValueRange choices(std::vector<std::string> all);
  /// Any text but none at all; `what` it stands for, as "a path".
  static ValueRange text(std::string what);
  /// What `matches` accepts.
  static ValueRange matching(std::string what,
                             bool (*matches)(const std::string &));

  /// As "a whole number from 1 to 1024".
  std::string describe() const;
  /// Whether `value`, which a user wrote, is in range. A whole number is then
  /// rewritten without leading zeros, which some readers take for octal.
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

/// Ranges that flags of the driver and of binaries have in common.
namespace range {
/// What a random generator is started with.
ValueRange seed();
/// Threads of a rank.
ValueRange threads();
/// Steps, rows, batches or tokens, from `least` on.
ValueRange count(int64_t least);
/// Seconds that a rank waits for the others to come.
ValueRange joinTimeout();
ValueRange path();
ValueRange text();
} // namespace range

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_VALUERANGE_H
