//===- Pooling.h - Pool hidden states into an embedding ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns the hidden states of a text into one embedding, as the model's
// sentence-transformers files say.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_POOLING_H
#define HEDDLE_RUNTIME_APP_POOLING_H

#include "heddle/runtime/app/Options.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <functional>

namespace heddle::rt {

/// How hidden states of tokens become one vector.
enum class PoolingMode {
  First,    ///< The hidden state of the first token.
  Maximum,  ///< The maximum of each feature over the tokens.
  Mean,     ///< The mean over the tokens.
  MeanSqrt, ///< The sum, divided by the square root of the number of tokens.
  WeightedMean, ///< The mean, with weight i for token i, counted from 1.
  Last          ///< The hidden state of the last token.
};

/// The modes by their names in sentence-transformers and `--pooling`, in the
/// order in which vectors of several modes are concatenated.
extern const std::vector<std::pair<std::string, PoolingMode>> poolingModes;

/// An operation on the embedding after pooling, such as a dense layer or a
/// normalization.
struct VectorStep {
  std::string name;    ///< The step's name in messages.
  int64_t inputs = 0;  ///< Elements that it takes; 0: any number.
  int64_t outputs = 0; ///< Elements that it yields; 0: the same number.
  bool cuts = false;   ///< Truncates to `outputs` elements if there are more.
  SourceLocation location; ///< Where a configuration file names the step.
  std::function<void(std::vector<float> &)> apply;
  bool normalizes = false; ///< It is `normalizeStep`.
};

/// Returns the step that scales a vector to length 1.
VectorStep normalizeStep();

/// How the hidden states of a text's tokens become one vector; by default their
/// mean.
struct Pooling {
  /// Vectors of several modes are concatenated.
  std::vector<PoolingMode> modes = {PoolingMode::Mean};
  bool poolsPrompt = true; ///< Tokens of the prompt are pooled too.
  std::vector<VectorStep> steps;

  /// Returns the number of elements in the embedding of a model whose hidden
  /// states have `width` elements. Throws H0378 when a step in `steps` expects
  /// another number of elements than the step before it yields.
  int64_t widthOf(int64_t width) const;
  /// Pools hidden states [tokens][width], without the first `unpooled` tokens.
  void apply(const float *hidden, int64_t tokens, int64_t unpooled,
             int64_t width, float *vector) const;
};

/// Reads the pooling from the flags. Settings without a flag come from the
/// sentence-transformers modules that modules.json in `directory` lists. If
/// there is no modules.json, the default is the mean without normalization.
/// Throws H0398 for a module that is not supported.
Pooling findPooling(const std::string &directory,
                    const PoolingOptions &options);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_POOLING_H
