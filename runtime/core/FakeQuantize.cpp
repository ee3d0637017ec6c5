//===- FakeQuantize.cpp - Weights that are quantized in training ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/FakeQuantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace heddle;
using namespace heddle::rt;

GroupQuantizer::GroupQuantizer(const Group &group, int bits, bool isAsymmetric)
    : group(group), bits(bits) {
  float values = std::ldexp(1.0f, bits), smallest = -group.negative;
  float span = isAsymmetric ? group.largest - smallest
                            : 2 * std::max(group.largest, group.negative);
  scale = span / values;
  zero =
      isAsymmetric && scale != 0 ? std::nearbyint(smallest / scale) * scale : 0;
  low = isAsymmetric ? 0 : -values / 2;
  high = (isAsymmetric ? values : values / 2) - 1;
}

float GroupQuantizer::round(float x) const {
  float magnitude = std::fabs(x);
  if (bits == 1)
    return x == 0 ? 0 : std::copysign(group.mean, x);
  if (bits == 2)
    return magnitude > thresholdOf(group.mean) ? std::copysign(group.level, x)
                                               : 0;
  if (scale == 0)
    return x;
  float code = std::clamp(std::nearbyint((x - zero) / scale), low, high);
  float value = code * scale;
  return value + zero;
}

namespace {

/// What is summed over the elements of a group.
struct GroupSums {
  float largest = -std::numeric_limits<float>::infinity();
  float negative = largest;
  double sum = 0, above = 0;
  int64_t count = 0, countAbove = 0;

  float mean() const { return float(sum) / float(count); }
};

} // namespace

void heddle::rt::fakeQuantize(float *weight, const std::vector<int64_t> &shape,
                              const plan::Quantizer &quantizer, int bits,
                              float ratio) {
  int64_t rows = shape.at(0), columns = shape.at(1);
  int64_t size = rows * columns / quantizer.groups;
  auto forElements = [&](auto visit) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        int64_t inWeight = quantizer.outputsLast ? column * rows + row
                                                 : row * columns + column;
        visit(weight[row * columns + column], inWeight / size);
      }
  };
  std::vector<GroupSums> sums(quantizer.groups);
  forElements([&](float x, int64_t group) {
    GroupSums &of = sums[group];
    of.largest = std::max(of.largest, x);
    of.negative = std::max(of.negative, -x);
    of.sum += std::fabs(x);
    ++of.count;
  });
  if (bits == 2)
    forElements([&](float x, int64_t group) {
      GroupSums &of = sums[group];
      if (std::fabs(x) > GroupQuantizer::thresholdOf(of.mean())) {
        of.above += std::fabs(x);
        ++of.countAbove;
      }
    });
  std::vector<GroupQuantizer> groups;
  for (const GroupSums &of : sums)
    groups.emplace_back(
        GroupQuantizer::Group{of.largest, of.negative, of.mean(),
                              float(of.above) / float(of.countAbove)},
        bits, quantizer.asymmetric);
  forElements(
      [&](float &x, int64_t group) { x = groups[group].mix(x, ratio); });
}
