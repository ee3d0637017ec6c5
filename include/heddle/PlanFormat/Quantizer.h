//===- Quantizer.h - Weights that are quantized in training -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_QUANTIZER_H
#define HEDDLE_PLANFORMAT_QUANTIZER_H

#include <cstdint>
#include <string>

namespace heddle::plan {

/// How a weight's copy in compute precision is quantized in training (MoQ).
struct Quantizer {
  /// The group of modules that the user configured; states of the optimizer
  /// hold its bits and its period.
  std::string group;
  /// The number of parts of the weight, as [outputs, inputs], that have a scale
  /// each.
  int64_t groups = 1;
  bool outputsLast = false; ///< Whether the state is [inputs, outputs].
  bool asymmetric = false;
};

/// The states of the optimizer that say how weights are quantized. Each is a
/// number. The names of the last two are followed by a dot and the group.
inline constexpr char quantizationsState[] = "quantizations";
inline constexpr char quantizationRatioState[] = "quantization_ratio";
inline constexpr char quantizationBitsState[] = "quantization_bits";
inline constexpr char quantizationPeriodState[] = "quantization_period";

/// The name of the state `what` of a group of modules.
inline std::string quantizationState(const char *what,
                                     const std::string &group) {
  return std::string(what) + "." + group;
}

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_QUANTIZER_H
