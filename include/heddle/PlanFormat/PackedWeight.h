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

/// The order of the words of a packed weight: that of the target whose kernels
/// read the weight. The same as NN_PackedLayout.
enum class PackedLayout { Panels, Fragments };

/// The sizes of a layout, and the order of words in a block of a panel.
/// nn.packed_linear documents both.
struct PackedBlock {
  int64_t outputs; ///< Outputs in a panel.
  int64_t words;   ///< Words along k that a block has of each output.
  /// A quantization group begins at a multiple of this many words.
  int64_t alignment;

  constexpr explicit PackedBlock(PackedLayout layout)
      : outputs(layout == PackedLayout::Panels ? 32 : 16),
        words(layout == PackedLayout::Panels ? 1 : 8),
        alignment(layout == PackedLayout::Panels ? 1 : 4) {}

  /// All words of a block.
  constexpr int64_t size() const { return outputs * words; }
  /// The position of word `word` of output `output` in a block. With one word
  /// of each output, words are ordered by output. Otherwise the words are those
  /// of a fragment of mma.sync: each of 32 lanes has four adjacent words, which
  /// are outputs `o` and `o` + 8 of word `w`, then of word `w` + 4.
  constexpr int64_t position(int64_t output, int64_t word) const {
    if (words == 1)
      return output;
    int64_t lane = output % 8 * 4 + word % 4;
    return lane * 4 + output / 8 + word / 4 * 2;
  }
};

/// How a state is computed from a weight when weights are loaded.
/// nn.packed_linear documents the layout, NN_PackedAttr the fields.
struct PackedWeight {
  static constexpr int64_t wordBits = 32;

  PackedPart part = PackedPart::Words;
  std::string name;           ///< The weight's name.
  std::vector<int64_t> shape; ///< Shape of this rank's part of the weight.
  int64_t bits = 32;          ///< Bits of a value: 32, 16, 8 or 4.
  int64_t group = 0;          ///< Inputs that share a scale; 0: all inputs.
  bool even = true; ///< Whether quantization is symmetric: no zero points.
  bool transposed = false; ///< Whether the weight is [out, in].
  PackedLayout layout = PackedLayout::Panels;

  PackedBlock block() const { return PackedBlock(layout); }
  int64_t inputs() const { return shape[transposed ? 1 : 0]; }
  int64_t outputs() const { return shape[transposed ? 0 : 1]; }
  bool isQuantized() const { return bits < 16; }
  int64_t perWord() const { return wordBits / bits; }
  int64_t panels() const { return unitsOf(outputs(), block().outputs); }
  int64_t groupLength() const { return group == 0 ? inputs() : group; }
  int64_t groups() const { return inputs() / groupLength(); }
  /// Words that a quantization group has of each output, with padding.
  int64_t groupWords() const {
    int64_t alignment = block().alignment;
    return unitsOf(groupLength(), perWord() * alignment) * alignment;
  }
  /// Blocks of a panel.
  int64_t blocks() const {
    return unitsOf(groups() * groupWords(), block().words);
  }
  /// The word that has input `input` of an output: its index along k, which
  /// counts the padding of earlier groups.
  int64_t wordOf(int64_t input) const {
    return input / groupLength() * groupWords() +
           input % groupLength() / perWord();
  }
  /// The index, in its panel, of word `word` of output `output` of the panel.
  int64_t indexInPanel(int64_t output, int64_t word) const {
    PackedBlock of = block();
    return word / of.words * of.size() + of.position(output, word % of.words);
  }
  /// Words of a panel.
  int64_t panelWords() const { return blocks() * block().size(); }
  /// The position, in its word, of the lowest bit of value number `index`, for
  /// values of `bits` bits.
  static constexpr int64_t bitOf(int64_t bits, int64_t index) {
    return bits == 4 ? index % 2 * 16 + index / 2 * 4 : index * bits;
  }
  /// The shape of the state.
  std::vector<int64_t> stateShape() const {
    if (part != PackedPart::Words)
      return {panels(), groups(), block().outputs};
    if (isQuantized())
      return {panels(), blocks(), block().size()};
    return {panels(), blocks(), block().size(), perWord()};
  }

private:
  /// How many units of size `unit` hold `count`.
  static int64_t unitsOf(int64_t count, int64_t unit) {
    return (count + unit - 1) / unit;
  }
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_PACKEDWEIGHT_H
