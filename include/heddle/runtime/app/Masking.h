//===- Masking.h - Masked language modeling ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses and masks tokens for masked language modeling. The choice depends
// only on a seed, the step and the token's position in the batch, so that all
// ranks agree, for any mesh and number of micro-batches, and after a resume.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_MASKING_H
#define HEDDLE_RUNTIME_APP_MASKING_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/app/DataFeed.h"
#include "heddle/runtime/app/Options.h"

namespace heddle::rt {

/// Identifies a token of a run, so that a random stream can decide whether the
/// token is masked.
struct MaskPosition {
  uint64_t seed = 0;
  uint64_t index = 0; ///< Index of the token in the batch.
  uint32_t step = 0;
  uint32_t site = 0; ///< Masking::training or Masking::evaluation.
};

/// Masks tokens as BERT does. Each token that is not special is chosen with a
/// probability. The label of a chosen token is the token itself; the model sees
/// the mask token in 8 of 10 cases, a random token in 1, the same token in 1.
/// The other tokens have no label.
class Masking {
public:
  /// Values of MaskPosition::site, which select the random stream.
  static constexpr uint32_t training = 0x6d61736b, evaluation = 0x6576616c;

  /// Creates the masking that `options` and the plan describe; returns nothing
  /// if the model predicts the next token, which needs no masking. Throws H0161
  /// if such a model is given masking options, H0165 for a probability of 0,
  /// H0162 when the mask token is unknown, and H0163 when the mask token is
  /// outside the vocabulary.
  static std::optional<Masking> of(const plan::Plan &plan,
                                   const MaskOptions &options);

  /// Whether the model must predict `token` at this position. If so, the model
  /// may see another token here (see `at`).
  bool chooses(const MaskPosition &place, int32_t token) const;
  /// Returns the model's input at this position (`token` or its replacement),
  /// or the label. `what` chooses between the two.
  int32_t at(const MaskPosition &place, int32_t token,
             DataFeed::What what) const;

private:
  double probability = 0;
  int64_t vocab = 0;
  int32_t mask = 0;
  std::vector<bool> isSpecial; ///< Whether a token is special, by token id.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_MASKING_H
