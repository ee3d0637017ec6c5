//===- PackWeightsTest.cpp - States that are made of weights --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/PackWeights.h"
#include "heddle/runtime/io/Float.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace heddle;
using namespace heddle::rt;
using plan::PackedLayout;
using plan::PackedPart;
using plan::PackedWeight;

namespace {

std::vector<float> randomWeight(int64_t count) {
  std::mt19937 engine(5);
  std::normal_distribution<float> normal(0.01f, 0.5f);
  std::vector<float> values(count);
  for (float &value : values)
    value = normal(engine);
  return values;
}

std::vector<uint32_t> wordsOf(PackedWeight packed,
                              const std::vector<float> &weight,
                              plan::DType type = plan::DType::I32) {
  packed.part = PackedPart::Words;
  std::vector<uint32_t> words(packed.panels() * packed.panelWords(),
                              0xdeadbeef);
  // In two parts, as two threads do.
  packPanels(packed, type, weight.data(), 0, 1, words.data());
  packPanels(packed, type, weight.data(), 1, packed.panels(), words.data());
  return words;
}

std::vector<float> groupsOf(PackedWeight packed, PackedPart part,
                            const std::vector<float> &weight) {
  packed.part = part;
  std::vector<uint16_t> halves(packed.panels() * packed.groups() *
                               packed.block().outputs);
  packPanels(packed, plan::DType::F16, weight.data(), 0, packed.panels(),
             halves.data());
  std::vector<float> values;
  for (uint16_t half : halves)
    values.push_back(io::f16ToFloat(half));
  return values;
}

/// Value i of output o, its bits at the bottom.
uint32_t bitsAt(const PackedWeight &packed, const std::vector<uint32_t> &words,
                int64_t i, int64_t o) {
  // Padding after the last input belongs to the last group.
  int64_t length = packed.groupLength(), perWord = packed.perWord();
  int64_t group = std::min(i / length, packed.groups() - 1);
  int64_t inGroup = i - group * length, word = inGroup / perWord;
  if (packed.layout == PackedLayout::Panels) {
    word += group * (length / perWord);
    word = (o / 32 * packed.blocks() + word) * 32 + o % 32;
  } else {
    word += group * ((length + 4 * perWord - 1) / (4 * perWord) * 4);
    int64_t block = o / 16 * packed.blocks() + word / 8;
    int64_t lane = o % 8 * 4 + word % 4;
    word = (block * 32 + lane) * 4 + o / 8 % 2 + word / 4 % 2 * 2;
  }
  uint32_t value =
      words[word] >> PackedWeight::bitOf(packed.bits, inGroup % perWord);
  return packed.bits == 32 ? value : value & ((1u << packed.bits) - 1);
}

float weightAt(const PackedWeight &packed, const std::vector<float> &weight,
               int64_t i, int64_t o) {
  return packed.transposed ? weight[o * packed.inputs() + i]
                           : weight[i * packed.outputs() + o];
}

void checkFloats(plan::DType type, PackedLayout layout) {
  using plan::DType;
  for (bool transposed : {false, true}) {
    PackedWeight packed;
    packed.layout = layout;
    packed.bits = 8 * plan::byteSize(type);
    packed.transposed = transposed;
    packed.shape =
        transposed ? std::vector<int64_t>{45, 7} : std::vector<int64_t>{7, 45};
    std::vector<float> weight = randomWeight(45 * 7);
    std::vector<uint32_t> words = wordsOf(packed, weight, type);
    for (int64_t o = 0; o < packed.panels() * packed.block().outputs; ++o)
      for (int64_t i = 0;
           i < packed.blocks() * packed.block().words * packed.perWord(); ++i) {
        bool inside = o < 45 && i < 7;
        float value = inside ? weightAt(packed, weight, i, o) : 0;
        uint32_t expected =
            type == DType::F16 ? io::floatToF16(value) : io::floatToBF16(value);
        if (type == DType::F32)
          std::memcpy(&expected, &value, 4);
        EXPECT_EQ(bitsAt(packed, words, i, o), expected) << i << " " << o;
      }
  }
}

TEST(PackWeights, Floats) {
  using plan::DType;
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    for (PackedLayout layout : {PackedLayout::Panels, PackedLayout::Fragments})
      checkFloats(type, layout);
}

/// No value is further from its code's than half a step.
void checkCodes(PackedLayout layout) {
  for (int64_t bits : {8, 4})
    for (int64_t group : {0, 8, 16, 24})
      for (bool even : {true, false}) {
        PackedWeight packed;
        packed.bits = bits;
        packed.group = group;
        packed.even = even;
        packed.layout = layout;
        packed.shape = {48, 37};
        std::vector<float> weight = randomWeight(48 * 37);
        std::vector<uint32_t> words = wordsOf(packed, weight);
        std::vector<float> scales =
            groupsOf(packed, PackedPart::Scales, weight);
        std::vector<float> zeros(scales.size());
        if (!even)
          zeros = groupsOf(packed, PackedPart::Zeros, weight);
        int64_t width = layout == PackedLayout::Panels ? 32 : 16;
        double worst = 0;
        for (int64_t o = 0; o < 37; ++o)
          for (int64_t i = 0; i < 48; ++i) {
            int64_t at =
                (o / width * packed.groups() + i / packed.groupLength()) *
                    width +
                o % width;
            int64_t code = bitsAt(packed, words, i, o);
            if (code >= 1 << (bits - 1))
              code -= 1 << bits;
            EXPECT_FALSE(even && bits == 8 && code == -128);
            double value = scales[at] * (double(code) - zeros[at]);
            double error = std::abs(value - weightAt(packed, weight, i, o)) /
                           std::abs(scales[at]);
            // The one code that 4 bits lack on the other side costs up to one
            // step.
            EXPECT_LE(error, even && bits == 4 ? 1.01 : 0.6) << i << " " << o;
            worst = std::max(worst, error);
          }
        EXPECT_GT(worst, 0.4);
      }
}

TEST(PackWeights, CodesAreTheNearest) {
  checkCodes(PackedLayout::Panels);
  checkCodes(PackedLayout::Fragments);
}

/// What a rank packs of its part is what one rank packs there of the whole:
/// with outputs split in two segments, and with inputs split that share a scale
/// or do not.
TEST(PackWeights, PartsHaveTheCodesOfTheWhole) {
  struct Case {
    int64_t group;
    bool transposed;
    plan::AxisNames inputs, outputs;
    std::vector<int64_t> segments;
    PackedLayout layout = PackedLayout::Panels;
  };
  plan::Mesh mesh;
  mesh.axes = {{"tensor", 2, plan::AxisRole::Tensor, ""}};
  for (const Case &each :
       {Case{0, false, {"tensor"}, {}, {}}, Case{0, true, {"tensor"}, {}, {}},
        Case{8, false, {"tensor"}, {}, {}}, Case{8, true, {"tensor"}, {}, {}},
        Case{0, false, {}, {"tensor"}, {14, 20}},
        Case{16, true, {}, {"tensor"}, {}},
        Case{8, false, {"tensor"}, {}, {}, PackedLayout::Fragments},
        Case{0, false, {}, {"tensor"}, {14, 20}, PackedLayout::Fragments}}) {
    PackedWeight whole;
    whole.bits = 8;
    whole.group = each.group;
    whole.transposed = each.transposed;
    whole.layout = each.layout;
    whole.shape = {48, 34};
    plan::Placement placement;
    placement.split = {each.inputs, each.outputs};
    PackedWeight part = whole;
    part.shape = {each.inputs.empty() ? 48 : 24,
                  each.outputs.empty() ? 34 : 17};
    if (each.transposed)
      for (auto *pair : {&whole.shape, &part.shape})
        std::swap((*pair)[0], (*pair)[1]);
    if (each.transposed)
      std::swap(placement.split[0], placement.split[1]);
    placement.whole = whole.shape;
    placement.segments = each.segments;
    std::vector<float> weight = randomWeight(48 * 34);
    GroupScales codes(whole.groups() * 34);
    scalesOfOutputs(whole, weight.data(), 0, 20, codes);
    scalesOfOutputs(whole, weight.data(), 20, 34, codes);
    EXPECT_EQ(splitsGroups(part, whole),
              each.group == 0 && !each.inputs.empty());
    std::vector<uint32_t> words = wordsOf(whole, weight);
    for (int64_t rank = 0; rank < 2; ++rank) {
      std::vector<rt::ElementRange> runs =
          rt::RankShard(placement, part.shape, mesh, rank).runs();
      std::vector<float> own(part.inputs() * part.outputs());
      for (const rt::ElementRange &run : runs)
        std::copy_n(&weight[run.whole], run.count, &own[run.local]);
      std::vector<uint32_t> ownWords(part.panels() * part.panelWords());
      packPanels(part, plan::DType::I32, own.data(), 0, part.panels(),
                 ownWords.data(), scalesOfShard(codes, part, whole, runs));
      for (const rt::ElementRange &run : runs)
        for (int64_t i = 0; i < run.count; ++i) {
          auto at = [&](const PackedWeight &packed,
                        const std::vector<uint32_t> &from, int64_t element) {
            int64_t minor = packed.shape[1];
            int64_t row = element / minor, column = element % minor;
            return bitsAt(packed, from, packed.transposed ? column : row,
                          packed.transposed ? row : column);
          };
          EXPECT_EQ(at(part, ownWords, run.local + i),
                    at(whole, words, run.whole + i));
        }
    }
  }
}

TEST(PackWeights, GroupsOfZerosAndTinyValues) {
  for (float value : {0.0f, 1e-12f}) {
    std::vector<float> values(32, value);
    for (bool even : {true, false}) {
      GroupScale code = scaleOf(values.data(), 32, 4, even);
      float back = code.scale * float(quantize(value, code, 4) - code.zero);
      EXPECT_NEAR(back, value, 1e-11);
    }
  }
}

} // namespace
