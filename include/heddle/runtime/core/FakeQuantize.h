//===- FakeQuantize.h - Weights that are quantized in training --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arithmetic of nn.fake_quantize in f32, for weights that are loaded and
// for reference evaluations.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_FAKEQUANTIZE_H
#define HEDDLE_RUNTIME_CORE_FAKEQUANTIZE_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::rt {

/// Rounds the elements of a group to the values of few bits.
class GroupQuantizer {
public:
  /// What the elements of a group have in common.
  struct Group {
    float largest = 0;  ///< The largest element.
    float negative = 0; ///< The largest of the elements' negatives.
    float mean = 0;     ///< The mean magnitude; only read with 1 or 2 bits.
    /// The mean of the magnitudes above 0.7 means; only read with 2 bits.
    float level = 0;
  };

  GroupQuantizer(const Group &group, int bits, bool isAsymmetric);

  /// The magnitude above which an element is not 0 with 2 bits.
  static float thresholdOf(float mean) { return 0.7f * mean; }
  /// The value to which `x` is rounded.
  float round(float x) const;
  /// `ratio` times `x`, and the rest of the value to which `x` is rounded.
  float mix(float x, float ratio) const {
    float kept = ratio * x, rounded = (1 - ratio) * round(x);
    return kept + rounded;
  }

private:
  Group group;
  int bits;
  float scale, zero, low, high;
};

/// Quantizes a whole weight in place. `shape` is [rows, columns], as the weight
/// is in memory.
void fakeQuantize(float *weight, const std::vector<int64_t> &shape,
                  const plan::Quantizer &quantizer, int bits, float ratio);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_FAKEQUANTIZE_H
