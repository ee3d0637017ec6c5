//===- LossScale.h - The factor of the loss's gradient ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the settings of the loss scale. A training step multiplies the gradient
// of the loss by the loss scale, so that small gradients do not vanish in fp16,
// and divides the gradients of the parameters by it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_LOSSSCALE_H
#define HEDDLE_SETTINGS_LOSSSCALE_H

#include "heddle/Settings/Settings.h"

#include <optional>
#include <string>

namespace heddle::config {

/// How the loss scale begins and changes. After a step whose gradients
/// overflow, it is halved if no overflow is left of the hysteresis. It is
/// doubled after a number of steps without overflow.
struct LossScale {
  double initial = 1;
  /// Steps without overflow after which the scale doubles; 0: never.
  int64_t window = 0;
  /// The scale is halved by this overflow and the following ones.
  int64_t hysteresis = 1;
  /// The least scale. If it should be halved, the run ends.
  double least = 1;
  /// Whether each step without overflow refills the hysteresis. If not, only a
  /// doubled scale does.
  bool isConsecutive = false;

  bool isDynamic() const { return window > 0; }
};

/// The number of successive steps that a static loss scale may skip before the
/// run ends.
inline constexpr int64_t mostOverflows = 10;

/// The texts that `--loss-scale` accepts.
io::ValueRange lossScaleRange();

/// Returns the loss scale of the settings; nothing if they have none. A static
/// scale is its own least scale, and has a hysteresis of `mostOverflows` + 1
/// successive overflows.
std::optional<LossScale> lossScaleOf(const Settings &settings);

/// Returns the error of settings that contradict each other as `CODE: MESSAGE;
/// CHANGE`: a least scale above the initial one (H0169). "" if there is none.
std::string checkLossScale(const Settings &settings);

/// Returns a note for the user if the scale is no power of two; "" if it is
/// one. Only powers of two multiply and divide without rounding.
std::string noteOfLossScale(const Settings &settings);

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_LOSSSCALE_H
