//===- WeightQuantization.h - Quantization while training -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which weights a training run quantizes (MoQ), and the schedule of their bits.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_WEIGHTQUANTIZATION_H
#define HEDDLE_SETTINGS_WEIGHTQUANTIZATION_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::config {

struct Settings;

/// Weights whose bits fall together.
struct QuantizedGroup {
  std::string name;
  int64_t startBits = 16, targetBits = 8;
  /// The number of quantizations until the bits fall for the first time. Each
  /// time they fall, the period doubles.
  int64_t period = 1;
  /// Regular expressions, matched anywhere in the path of a module; "*" means
  /// all modules.
  std::vector<std::string> modules;

  std::string toText() const;
  /// Whether one of the patterns matches the path of a module.
  bool takes(const std::string &module) const;
};

/// Whether a pattern of a group matches the path of a module.
bool takesModule(const std::string &pattern, const std::string &module);

/// Parses `NAME start_bits=16 target_bits=8 period=5 modules=REGEX ...`. For
/// any other text returns nullopt, and sets `wrong` to the reason.
std::optional<QuantizedGroup> parseQuantizedGroup(const std::string &text,
                                                  std::string &wrong);

/// The groups of the setting `moq`, which have been checked. With
/// `moq_in_forward` they start with their target bits.
std::vector<QuantizedGroup> quantizedGroupsOf(const Settings &settings);

/// Returns an error (H0108 or H0100) if training cannot quantize weights as the
/// settings ask for, with its code and help. Empty if it can, or need not.
std::string checkQuantizedTraining(const Settings &settings);

/// The bits, the period and the mixing ratio as quantizations proceed. This is
/// the rule that a training step applies to its states.
struct QuantizationSchedule {
  /// How many quantizations there were. Below 1 there was none yet, and the
  /// first one is after 1 - `quantizations` updates.
  int64_t quantizations = 0;
  double ratio = 1; ///< The share of the value that is not rounded.
  std::vector<int64_t> bits, periods; ///< Of each group.

  /// The state of a run before its first step. If quantization has no offset,
  /// the weights have then been quantized once.
  static QuantizationSchedule first(const Settings &settings);
  void advance(const std::vector<QuantizedGroup> &groups, double changeRatio);
};

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_WEIGHTQUANTIZATION_H
