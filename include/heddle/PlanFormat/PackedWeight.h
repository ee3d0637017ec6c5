//===- PackedWeight.h - Layout of a packed weight ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed weights: weights in the layout that kernels read, often quantized. The
// runtime packs them when it loads weights (runtime/core/PackWeights.h).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_PACKEDWEIGHT_H
#define HEDDLE_PLANFORMAT_PACKEDWEIGHT_H

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::plan {

/// The tensors of a packed weight: 32-bit words that hold its elements, and for
/// quantized weights scales and zero points. The same as NN_PackedPart.
enum class PackedPart { Words, Scales, Zeros };

/// How a state is computed from a weight when weights are loaded.
/// nn.packed_linear documents the layout, NN_PackedAttr the fields.
struct PackedWeight {
  static constexpr int64_t panelWidth = 32; ///< Outputs in a panel.
  static constexpr int64_t wordBits = 32;

  PackedPart part = PackedPart::Words;
  std::string name;           ///< The weight's name.
  std::vector<int64_t> shape; ///< Shape of this rank's part of the weight.
  int64_t bits = 32;          ///< Bits of a value: 32, 16, 8 or 4.
  int64_t group = 0;          ///< Inputs that share a scale; 0: all inputs.
  bool even = true; ///< Whether quantization is symmetric: no zero points.
  bool transposed = false; ///< Whether the weight is [out, in].

  int64_t inputs() const { return shape[transposed ? 1 : 0]; }
  int64_t outputs() const { return shape[transposed ? 0 : 1]; }
  bool isQuantized() const { return bits < 16; }
  int64_t perWord() const { return wordBits / bits; }
  int64_t panels() const { return (outputs() + panelWidth - 1) / panelWidth; }
  int64_t words() const { return (inputs() + perWord() - 1) / perWord(); }
  int64_t groupLength() const { return group == 0 ? inputs() : group; }
  int64_t groups() const { return inputs() / groupLength(); }
  /// The position, in its word, of the lowest bit of value number `index`, for
  /// values of `bits` bits.
  static constexpr int64_t bitOf(int64_t bits, int64_t index) {
    return bits == 4 ? index % 2 * 16 + index / 2 * 4 : index * bits;
  }
  /// The shape of the state.
  std::vector<int64_t> stateShape() const {
    if (part != PackedPart::Words)
      return {panels(), groups(), panelWidth};
    if (isQuantized())
      return {panels(), words(), panelWidth};
    return {panels(), words(), panelWidth, perWord()};
  }
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_PACKEDWEIGHT_H
