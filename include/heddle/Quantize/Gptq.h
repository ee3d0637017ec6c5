//===- Gptq.h - GPTQ: rounding with error correction ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounds a weight matrix by GPTQ, one input after the other: the weights of
// later inputs are changed to correct the rounding errors of earlier ones.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_QUANTIZE_GPTQ_H
#define HEDDLE_QUANTIZE_GPTQ_H

#include "heddle/Quantize/Rounding.h"

namespace heddle::quantize {

/// Second moments of a product's inputs: the sum over tokens of x[i] x[j], as
/// [inputs][inputs].
using Moments = std::vector<double>;

struct GptqOptions {
  /// The number that is added to the diagonal of the moments, as a fraction of
  /// the diagonal's mean.
  double dampening = 0.01;
  /// Whether to round the inputs with the largest moments first. The inputs of
  /// a group, which are neighbours, are then rounded at different times. The
  /// scales of a group are therefore chosen from the original weight, without
  /// corrections.
  bool largestFirst = false;
};

/// Rounds the weights of `weight`, [inputs][outputs], one input after the
/// other, and corrects the weights of later inputs for each error (Frantar et
/// al. 2023, "GPTQ", algorithm 1). The scales of a group are chosen when its
/// first input is rounded. The weights of inputs that are always zero are
/// rounded to the nearest code.
RoundedMatrix roundWithGptq(const CodeShape &shape,
                            const std::vector<float> &weight,
                            const Moments &moments, const GptqOptions &options,
                            rt::ThreadPool &pool);

/// The relative error of a product's results: the norm of X (weight - rounded),
/// divided by the norm of X weight. X are the inputs of the product, of which
/// only the moments are given.
double outputError(const std::vector<float> &weight,
                   const RoundedMatrix &rounded, const Moments &moments,
                   rt::ThreadPool &pool);

} // namespace heddle::quantize

#endif // HEDDLE_QUANTIZE_GPTQ_H
