//===- PositionExtension.cpp - More positions than a model has ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Settings/PositionExtension.h"

using namespace heddle;
using namespace heddle::config;

std::optional<PositionExtension>
config::parsePositionExtension(const std::string &text) {
  const size_t colon = text.find(':');
  const std::string word =
      colon == std::string::npos ? "repeat" : text.substr(colon + 1);
  std::string number = text.substr(0, colon);
  if ((word != "repeat" && word != "interpolate") ||
      !io::ValueRange::integers(1, 1 << 28).take(number))
    return std::nullopt;
  return PositionExtension{std::stoll(number), word == "interpolate"};
}

io::ValueRange config::positionExtensionRange() {
  return io::ValueRange::matching(
      "a number of positions from 1 to 268435456, as 8192, 8192:repeat or "
      "8192:interpolate",
      [](const std::string &text) {
        return parsePositionExtension(text).has_value();
      });
}
