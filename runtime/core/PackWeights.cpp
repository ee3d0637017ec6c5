//===- PackWeights.cpp - Packs and quantizes weights ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/PackWeights.h"
#include "heddle/runtime/io/Float.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::rt;
using plan::PackedPart;
using plan::PackedWeight;

static float roundToF16(float value) {
  return io::f16ToFloat(io::floatToF16(value));
}

GroupScale heddle::rt::scaleOf(const float *values, int64_t count, int64_t bits,
                               bool even) {
  float least = 0, most = 0;
  for (int64_t i = 0; i < count; ++i) {
    least = std::min(least, values[i]);
    most = std::max(most, values[i]);
  }
  int32_t lowest = -(1 << (bits - 1)), highest = -lowest - 1;
  GroupScale code;
  if (even) {
    // The lowest code (-8 for 4 bits) has no positive counterpart. With few
    // codes it should not be wasted: give it to the value of the largest
    // magnitude, whatever its sign.
    float extreme = -least > most ? least : most;
    code.scale = roundToF16(bits == 4 ? extreme / float(lowest)
                                      : std::abs(extreme) / float(highest));
    return code;
  }
  code.scale = roundToF16((most - least) / float(highest - lowest));
  if (code.scale != 0)
    code.zero = std::clamp(lowest - int32_t(std::lrint(least / code.scale)),
                           lowest, highest);
  return code;
}

int32_t heddle::rt::quantize(float value, GroupScale code, int64_t bits) {
  if (code.scale == 0)
    return code.zero;
  int32_t lowest = -(1 << (bits - 1)), highest = -lowest - 1;
  // Clamp before the conversion to an integer: a small scale loses precision in
  // f16, so that the quotient can be too large.
  float steps = std::clamp(value / code.scale, -1024.0f, 1024.0f);
  return std::clamp(int32_t(std::lrint(steps)) + code.zero, lowest, highest);
}

PackedWeight heddle::rt::wholeOf(PackedWeight packed,
                                 std::vector<int64_t> shape) {
  packed.shape = std::move(shape);
  return packed;
}

bool heddle::rt::splitsGroups(const PackedWeight &packed,
                              const PackedWeight &whole) {
  return packed.isQuantized() && packed.groupLength() != whole.groupLength();
}

void heddle::rt::scalesOfOutputs(const PackedWeight &whole, const float *weight,
                                 int64_t begin, int64_t end,
                                 GroupScales &codes) {
  int64_t inputs = whole.inputs(), outputs = whole.outputs();
  int64_t length = whole.groupLength();
  std::vector<float> values(length);
  for (int64_t o = begin; o < end; ++o)
    for (int64_t group = 0; group < whole.groups(); ++group) {
      for (int64_t i = 0; i < length; ++i) {
        int64_t input = group * length + i;
        values[i] =
            weight[whole.transposed ? o * inputs + input : input * outputs + o];
      }
      codes[group * outputs + o] =
          scaleOf(values.data(), length, whole.bits, whole.even);
    }
}

GroupScales heddle::rt::scalesOfShard(const GroupScales &codes,
                                      const PackedWeight &packed,
                                      const PackedWeight &whole,
                                      const std::vector<ElementRange> &runs) {
  GroupScales own(packed.groups() * packed.outputs());
  int64_t length = packed.groupLength();
  auto inputOf = [](const PackedWeight &of, int64_t element) {
    return of.transposed ? element % of.inputs() : element / of.outputs();
  };
  auto outputOf = [](const PackedWeight &of, int64_t element) {
    return of.transposed ? element / of.inputs() : element % of.outputs();
  };
  for (const ElementRange &run : runs)
    for (int64_t at = 0; at < run.count;) {
      int64_t local = run.local + at;
      int64_t input = inputOf(packed, local), output = outputOf(packed, local);
      // All inputs of a quantization group have the same scale. Copy it at the
      // first input of the group, and skip the other inputs.
      if (int64_t past = input % length) {
        at += packed.transposed ? length - past
                                : (length - past) * packed.outputs() - output;
        continue;
      }
      int64_t group = inputOf(whole, run.whole + at) / whole.groupLength();
      own[input / length * packed.outputs() + output] =
          codes[group * whole.outputs() + outputOf(whole, run.whole + at)];
      at += packed.transposed ? length : 1;
    }
  return own;
}

namespace {

/// Packs one panel, the outputs that the layout keeps together.
class Panel {
public:
  Panel(const PackedWeight &packed, plan::DType type, const float *weight,
        int64_t number, const GroupScales &given)
      : packed(packed), type(type), width(packed.block().outputs),
        inputs(packed.inputs()), first(number * width),
        count(std::min(width, packed.outputs() - first)), given(given),
        values(width * inputs) {
    int64_t outputs = packed.outputs();
    for (int64_t i = 0; i < inputs; ++i)
      for (int64_t o = 0; o < count; ++o)
        values[o * inputs + i] = packed.transposed
                                     ? weight[(first + o) * inputs + i]
                                     : weight[i * outputs + first + o];
  }

  void writeFloats(uint32_t *to) const {
    for (int64_t o = 0; o < count; ++o)
      writeWords(to, o, 0, [&](float value) { return bitsOf(value); });
  }

  void writeCodes(uint32_t *to) const {
    forEachGroup([&](int64_t o, int64_t begin, GroupScale code) {
      writeWords(to, o, begin, [&](float value) {
        return uint32_t(quantize(value, code, packed.bits));
      });
    });
  }

  /// Writes the scales, or the zero points, of all quantization groups of the
  /// panel.
  void writeGroups(uint16_t *to) const {
    forEachGroup([&](int64_t o, int64_t begin, GroupScale code) {
      float value =
          packed.part == PackedPart::Scales ? code.scale : float(code.zero);
      to[begin / packed.groupLength() * width + o] = io::floatToF16(value);
    });
  }

private:
  uint32_t bitsOf(float value) const {
    if (type != plan::DType::F32)
      return type == plan::DType::F16 ? io::floatToF16(value)
                                      : io::floatToBF16(value);
    uint32_t word = 0;
    std::memcpy(&word, &value, sizeof(word));
    return word;
  }

  /// Writes the words of output `o` of the panel for the quantization group of
  /// inputs that begins at `begin`. `convert` returns the bits of a value.
  template <typename Convert>
  void writeWords(uint32_t *to, int64_t o, int64_t begin,
                  Convert convert) const {
    int64_t perWord = packed.perWord(), length = packed.groupLength();
    uint32_t mask = uint32_t((uint64_t(1) << packed.bits) - 1);
    int64_t number = packed.wordOf(begin);
    for (int64_t start = 0; start < length; start += perWord) {
      uint32_t word = 0;
      int64_t end = std::min(perWord, length - start);
      for (int64_t i = 0; i < end; ++i)
        word |= (convert(values[o * inputs + begin + start + i]) & mask)
                << PackedWeight::bitOf(packed.bits, i);
      to[packed.indexInPanel(o, number++)] = word;
    }
  }

  template <typename Visit> void forEachGroup(Visit visit) const {
    int64_t length = packed.groupLength();
    for (int64_t o = 0; o < width; ++o)
      for (int64_t begin = 0; begin < inputs; begin += length)
        visit(o, begin, codeOfGroup(o, begin / length));
  }

  GroupScale codeOfGroup(int64_t o, int64_t group) const {
    int64_t length = packed.groupLength();
    if (given.empty())
      return scaleOf(&values[o * inputs + group * length], length, packed.bits,
                     packed.even);
    return o < count ? given[group * packed.outputs() + first + o]
                     : GroupScale();
  }

  const PackedWeight &packed;
  plan::DType type;
  int64_t width; ///< Outputs of a panel.
  int64_t inputs, first, count;
  const GroupScales &given;
  std::vector<float> values; ///< The values of one output after the other.
};

} // namespace

void heddle::rt::packPanels(const PackedWeight &packed, plan::DType type,
                            const float *weight, int64_t begin, int64_t end,
                            void *state, const GroupScales &given) {
  for (int64_t number = begin; number < end; ++number) {
    Panel panel(packed, type, weight, number, given);
    if (packed.part != PackedPart::Words) {
      panel.writeGroups(static_cast<uint16_t *>(state) +
                        number * packed.groups() * packed.block().outputs);
      continue;
    }
    int64_t words = packed.panelWords();
    auto *to = static_cast<uint32_t *>(state) + number * words;
    std::fill_n(to, words, 0);
    if (packed.isQuantized())
      panel.writeCodes(to);
    else
      panel.writeFloats(to);
  }
}
