//===- AttentionReference.h - Attention in double precision ---*- C++ -*- ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The formulas of attention and its gradient, written out.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_ATTENTION_ATTENTIONREFERENCE_H
#define HEDDLE_TEST_UNIT_ATTENTION_ATTENTIONREFERENCE_H

#include "heddle/Codegen/CPU/Attention.h"
#include <vector>

namespace heddle::test {

/// The seed and step of dropout, and where it is drawn.
struct ReferenceRandom {
  uint32_t rng[4] = {0x12345678, 0x9abcdef0, 7, 0};
  int64_t layer = 3, microBatch = 5, part = 0;
};

/// q [B, T, H, D], k and v [B, T, KV, D]; what is made of them.
struct ReferenceAttention {
  cpu::AttentionSpec spec;
  ReferenceRandom random;
  std::vector<double> q, k, v;
  std::vector<int32_t> lengths; ///< Of the rows; empty where all are whole.
  std::vector<int32_t> layout;  ///< Its words, if the mask has a block.
  std::vector<double> output, lse;

  /// Makes `output` and `lse`.
  void forward();

  struct Gradients {
    std::vector<double> q, k, v;
  };
  /// The gradients for the gradient `grad` of `output`.
  Gradients backward(const std::vector<double> &grad) const;

private:
  /// The softmax of one row of scores, of the keys that the query sees, and the
  /// row's lse.
  std::vector<double> probabilities(int64_t batch, int64_t head, int64_t query,
                                    double &lse) const;
  /// What dropout multiplies a probability by.
  double factor(int64_t batch, int64_t head, int64_t query, int64_t key) const;
  bool isInLayout(int64_t head, int64_t query, int64_t key) const;
  int64_t queryAt(int64_t batch, int64_t head, int64_t row) const;
  int64_t keyAt(int64_t batch, int64_t head, int64_t row) const;
};

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_ATTENTION_ATTENTIONREFERENCE_H
