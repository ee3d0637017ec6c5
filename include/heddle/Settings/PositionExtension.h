//===- PositionExtension.h - More positions than a model has ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_POSITIONEXTENSION_H
#define HEDDLE_SETTINGS_POSITIONEXTENSION_H

#include "heddle/runtime/io/ValueRange.h"
#include <optional>

namespace heddle::config {

/// How a model gets more positions, as `--extend-positions` says.
struct PositionExtension {
  int64_t positions = 0; ///< Positions of the extended model.
  /// Whether rows of the table are interpolated; otherwise they are repeated.
  bool interpolates = false;
};

/// Reads a number of positions, and a word after a colon: `8192`,
/// `8192:repeat` or `8192:interpolate`. Returns nothing for any other text.
std::optional<PositionExtension>
parsePositionExtension(const std::string &text);

/// The texts that `parsePositionExtension` reads.
io::ValueRange positionExtensionRange();

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_POSITIONEXTENSION_H
