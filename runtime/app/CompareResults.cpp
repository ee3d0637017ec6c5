//===- CompareResults.cpp - Compare a result with a reference -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares results of kernels for the verb `check`. The tensors may have
// padding between rows.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/CompareResults.h"
#include "heddle/runtime/io/Safetensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace heddle;
using namespace heddle::rt;

/// Reads `count` elements from element `begin` on.
static void read(const char *bytes, plan::DType type, int64_t begin,
                 int64_t count, double *to) {
  const char *from = bytes + begin * plan::byteSize(type);
  if (type == plan::DType::U8) {
    for (int64_t i = 0; i < count; ++i)
      to[i] = static_cast<unsigned char>(from[i]);
    return;
  }
  if (type != plan::DType::I32) {
    io::convertElements(from, plan::nameOf(type), to, "F64", count);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    int32_t value = 0;
    memcpy(&value, from + i * sizeof value, sizeof value);
    to[i] = value;
  }
}

namespace {
struct Squares {
  double sum = 0;
  int64_t count = 0;
  double root() const { return std::sqrt(sum / double(count)); }
};
} // namespace

Comparison heddle::rt::compareResults(const char *actual, const char *expected,
                                      const plan::PlainKernel::Result &of,
                                      bool isPart) {
  constexpr int64_t piece = 1 << 16;
  std::vector<double> mine(piece), theirs(piece);
  auto forEach = [&](auto work) {
    for (int64_t begin = 0; begin < of.elements; begin += piece) {
      int64_t count = std::min(piece, of.elements - begin);
      read(actual, of.type, begin, count, mine.data());
      read(expected, of.type, begin, count, theirs.data());
      for (int64_t i = 0; i < count; ++i)
        if ((begin + i) % of.leadingDimension < of.columns)
          work(mine[i], theirs[i], !isPart || !std::isnan(theirs[i]),
               (begin + i) / of.leadingDimension);
    }
  };
  Comparison result;
  Squares ofAll;
  std::vector<Squares> ofRow((of.elements + of.leadingDimension - 1) /
                             of.leadingDimension);
  forEach([&](double, double value, bool isKnown, int64_t row) {
    ++result.elements;
    if (!isKnown)
      return;
    for (Squares *one : {&ofAll, &ofRow[row]}) {
      one->sum += value * value;
      ++one->count;
    }
  });
  result.compared = ofAll.count;
  double least = ofAll.root();
  forEach([&](double value, double other, bool isKnown, int64_t row) {
    if (value == other || !isKnown)
      return;
    double scale = std::max(least, ofRow[row].root());
    double one = std::abs(value - other) / (std::abs(other) + scale);
    // If one of the two values is NaN, the error is infinite.
    result.error = std::isnan(one) ? std::numeric_limits<double>::infinity()
                                   : std::max(result.error, one);
  });
  return result;
}
