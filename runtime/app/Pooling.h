//===- Pooling.h - What the vector of a text is -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_POOLING_H
#define HEDDLE_RUNTIME_APP_POOLING_H

#include "heddle/runtime/app/Options.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <functional>

namespace heddle::rt {

/// How the hidden states of tokens become one vector.
enum class PoolingMode {
  First,        ///< The first token's.
  Maximum,      ///< Of each feature the largest value.
  Mean,         ///< The mean.
  MeanSqrt,     ///< The sum, divided by the root of the number of tokens.
  WeightedMean, ///< The mean, where token i counts i times, from 1 on.
  Last          ///< The last token's.
};

/// The modes by the names that sentence-transformers and `--pooling` have, in
/// the order in which vectors of several modes are put together.
extern const std::vector<std::pair<std::string, PoolingMode>> poolingModes;

/// Something that is done with a vector after pooling.
struct VectorStep {
  std::string name;        ///< As messages call it.
  int64_t inputs = 0;      ///< Elements of the vector; 0: any number.
  int64_t outputs = 0;     ///< Elements after it; 0: as many.
  bool cuts = false;       ///< Of fewer elements than `outputs` it leaves all.
  SourceLocation location; ///< Where a file says so.
  std::function<void(std::vector<float> &)> apply;
  bool normalizes = false; ///< It is `normalizeStep`.
};

/// Divides a vector by its length.
VectorStep normalizeStep();

/// What makes one vector of the hidden states of a text's tokens: the mean, if
/// nothing else is said.
struct Pooling {
  /// Vectors of several modes are put together.
  std::vector<PoolingMode> modes = {PoolingMode::Mean};
  bool poolsPrompt = true; ///< The tokens of a prompt have a part in it.
  std::vector<VectorStep> steps;

  /// Elements of the vector, if hidden states have `width`. Throws H0378 when a
  /// step takes another number.
  int64_t widthOf(int64_t width) const;
  /// Makes the vector of hidden states, [tokens][width], of which those of the
  /// first `unpooled` tokens have no part in it.
  void apply(const float *hidden, int64_t tokens, int64_t unpooled,
             int64_t width, float *vector) const;
};

/// What the flags say; where they do not, what sentence-transformers saved in
/// `directory`: the modules of modules.json with their files. Without
/// modules.json it is the mean as it is. Throws H0398 where a module does what
/// Heddle does not.
Pooling findPooling(const std::string &directory,
                    const PoolingOptions &options);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_POOLING_H
