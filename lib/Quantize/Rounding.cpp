//===- Rounding.cpp - Round-to-nearest quantization -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Quantize/Rounding.h"
#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::quantize;

std::vector<float> RoundedMatrix::values() const {
  std::vector<float> result(codes.size());
  for (int64_t i = 0; i < shape.inputs; ++i)
    for (int64_t o = 0; o < shape.outputs; ++o)
      result[i * shape.outputs + o] = at(i, o);
  return result;
}

RoundedMatrix quantize::roundToNearest(const CodeShape &shape,
                                       const std::vector<float> &weight,
                                       rt::ThreadPool &pool) {
  RoundedMatrix result(shape);
  const int64_t outputs = shape.outputs, length = shape.length;
  forEachShare(pool, outputs, [&](int64_t begin, int64_t end) {
    std::vector<float> group(length);
    for (int64_t o = begin; o < end; ++o)
      for (int64_t first = 0; first < shape.inputs; first += length) {
        for (int64_t i = 0; i < length; ++i)
          group[i] = weight[(first + i) * outputs + o];
        rt::GroupScale code =
            rt::scaleOf(group.data(), length, shape.bits, shape.even);
        result.groupOf(first, o) = code;
        for (int64_t i = 0; i < length; ++i)
          result.codes[(first + i) * outputs + o] =
              int8_t(rt::quantize(group[i], code, shape.bits));
      }
  });
  return result;
}

SquareSums quantize::squareSums(const std::vector<float> &weight,
                                const RoundedMatrix &rounded) {
  SquareSums sums;
  for (int64_t i = 0; i < rounded.shape.inputs; ++i)
    for (int64_t o = 0; o < rounded.shape.outputs; ++o) {
      double value = weight[i * rounded.shape.outputs + o];
      double off = rounded.at(i, o) - value;
      sums.weight += value * value;
      sums.error += off * off;
    }
  return sums;
}

double quantize::relativeNorm(double error, double whole) {
  return whole > 0 ? std::sqrt(std::max(error, 0.0) / whole) : 0;
}
