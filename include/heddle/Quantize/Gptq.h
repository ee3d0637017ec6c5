//===- Gptq.h - Rounding that makes up for its errors -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_QUANTIZE_GPTQ_H
#define HEDDLE_QUANTIZE_GPTQ_H

#include "heddle/Quantize/Rounding.h"

namespace heddle::quantize {

/// Second moments of what a product reads: the sum over tokens of x[i] x[j],
/// [inputs][inputs].
using Moments = std::vector<double>;

struct GptqOptions {
  /// What is added to the diagonal, as a fraction of its mean.
  double dampening = 0.01;
  /// Round the inputs with the largest moments first. Scales are then those of
  /// the weight as it is, so that groups stay groups of neighbours.
  bool largestFirst = false;
};

/// Rounds the inputs of `weight`, [inputs][outputs], one after the other, and
/// has later ones make up for the errors of those before (Frantar et al. 2023,
/// "GPTQ", algorithm 1). The scales of a group are chosen when its first input
/// is rounded. Inputs that are always zero are rounded to the nearest.
RoundedMatrix roundWithGptq(const CodeShape &shape,
                            const std::vector<float> &weight,
                            const Moments &moments, const GptqOptions &options,
                            rt::ThreadPool &pool);

/// Norm of X (weight - rounded) by that of X weight, X being the inputs that
/// the moments are of.
double outputError(const std::vector<float> &weight,
                   const RoundedMatrix &rounded, const Moments &moments,
                   rt::ThreadPool &pool);

} // namespace heddle::quantize

#endif // HEDDLE_QUANTIZE_GPTQ_H
