//===- Masking.h - Tokens to predict from those around them -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which tokens of a batch are masked is a function of a seed, the step and the
// token's place in the batch: every rank finds the same, whatever the mesh, the
// micro-batches and the steps that were done before.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_MASKING_H
#define HEDDLE_RUNTIME_APP_MASKING_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/app/DataFeed.h"
#include "heddle/runtime/app/Options.h"

namespace heddle::rt {

/// Where a token stands among all that are masked.
struct MaskPlace {
  uint64_t seed = 0;
  uint64_t index = 0; ///< Of the token.
  uint32_t step = 0;
  uint32_t site = 0; ///< Of training, or of evaluation.
};

/// Masks tokens as BERT does: of those that are no special tokens each is
/// chosen with a probability. A chosen one is the label at its place, and the
/// model is given the mask in 8 of 10 cases, any token in 1, itself in 1. The
/// others have no label.
class Masking {
public:
  /// The sites of the random numbers.
  static constexpr uint32_t training = 0x6d61736b, evaluation = 0x6576616c;

  /// What `options` say for this plan; nothing when its labels are the next
  /// tokens. Throws H0161 for options that such a plan does not take, H0165
  /// for a probability of 0, H0162 when nothing says what the mask is, H0163
  /// for one that is no token.
  static std::optional<Masking> of(const plan::Plan &plan,
                                   const MaskOptions &options);

  /// Whether `token` is a label at its place.
  bool chooses(const MaskPlace &place, int32_t token) const;
  /// What the model is given in place of `token`, or its label.
  int32_t at(const MaskPlace &place, int32_t token, DataFeed::What what) const;

private:
  double probability = 0;
  int64_t vocab = 0;
  int32_t mask = 0;
  std::vector<bool> isSpecial; ///< By token.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_MASKING_H
