//===- Format.cpp - Numbers of bytes as text ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/Format.h"

#include <array>
#include <cstdio>
#include <iterator>

std::string heddle::plan::formatBytes(int64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit)
    value /= 1024;
  std::array<char, 32> text;
  snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.2f %s", value,
           units[unit]);
  return text.data();
}

std::string heddle::plan::formatExactBytes(int64_t bytes) {
  return formatBytes(bytes) + " (" + std::to_string(bytes) + " bytes)";
}
