//===- Rounding.h - Round-to-nearest quantization ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Round-to-nearest quantization of a matrix, and measures of its error.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_QUANTIZE_ROUNDING_H
#define HEDDLE_QUANTIZE_ROUNDING_H

#include "heddle/runtime/core/PackWeights.h"
#include "heddle/runtime/devices/cpu/ThreadPool.h"

namespace heddle::quantize {

/// The shape of a quantized matrix [inputs][outputs].
struct CodeShape {
  int64_t inputs = 0, outputs = 0;
  int64_t bits = 4; ///< Bits of a quantized value: 8 or 4.
  /// The number of inputs that share a scale; it divides `inputs`.
  int64_t length = 0;
  /// Whether quantization is symmetric: the middle code then means zero.
  bool even = true;
  int64_t groups() const { return inputs / length; }
};

/// A quantized matrix.
struct RoundedMatrix {
  explicit RoundedMatrix(const CodeShape &shape)
      : shape(shape), codes(shape.inputs * shape.outputs),
        groups(shape.groups() * shape.outputs) {}

  rt::GroupScale &groupOf(int64_t input, int64_t output) {
    return groups[input / shape.length * shape.outputs + output];
  }
  /// The dequantized value of a code.
  float at(int64_t input, int64_t output) const {
    const rt::GroupScale &group =
        groups[input / shape.length * shape.outputs + output];
    return group.scale *
           float(codes[input * shape.outputs + output] - group.zero);
  }
  /// The dequantized values, as [inputs][outputs].
  std::vector<float> values() const;

  CodeShape shape;
  std::vector<int8_t> codes; ///< The codes, as [inputs][outputs].
  /// The scales and zero points, as [groups][outputs].
  std::vector<rt::GroupScale> groups;
};

/// Rounds each value of `weight`, as [inputs][outputs], to the nearest code.
RoundedMatrix roundToNearest(const CodeShape &shape,
                             const std::vector<float> &weight,
                             rt::ThreadPool &pool);

/// Two sums of squares over all values of a weight: of the values themselves,
/// and of their rounding errors.
struct SquareSums {
  double weight = 0, error = 0;
};
SquareSums squareSums(const std::vector<float> &weight,
                      const RoundedMatrix &rounded);

/// The relative norm: the root of `error` divided by the root of `whole`.
double relativeNorm(double error, double whole);

/// Calls `work(begin, end)` on all threads. The ranges of the threads together
/// cover 0 .. count.
template <typename Function>
void forEachShare(rt::ThreadPool &pool, int64_t count, Function work) {
  struct Context {
    int64_t count;
    Function *work;
  } context{count, &work};
  pool.run(
      [](const void *data, int64_t thread, int64_t threads) {
        const auto &context = *static_cast<const Context *>(data);
        (*context.work)(context.count * thread / threads,
                        context.count * (thread + 1) / threads);
      },
      &context);
}

} // namespace heddle::quantize

#endif // HEDDLE_QUANTIZE_ROUNDING_H
