//===- AttentionTexts.h - Attention kernels for tests -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_GPU_ATTENTIONTEXTS_H
#define HEDDLE_TEST_UNIT_GPU_ATTENTIONTEXTS_H

#include "../Kernels/KernelReference.h"
#include <array>

namespace heddle::test {

/// One attention, of a batch of two.
struct AttentionForm {
  int64_t seq, heads, kvHeads, headDim;
  std::string type = "f32";
  bool causal = true;
  double p = 0;
  bool hasLengths = false;
  bool packed = false;
  /// With dropout or a layout: parts of the heads, of which this is the last.
  int64_t parts = 1;
  int64_t window = 0;
  double softcap = 0;
  int64_t block = 0; ///< Of a layout; 0: none.
  /// One layout for all heads, or one for each head of all parts.
  bool hasLayoutOfHeads = false;
  double density = 0.4; ///< The share of the blocks that are in a layout.

  /// The shape of the layout.
  std::array<int64_t, 3> layoutShape() const {
    int64_t blocks = (seq + block - 1) / block;
    return {hasLayoutOfHeads ? heads * parts : 1, blocks, (blocks + 31) / 32};
  }
};

/// The check of the forward pass or the gradient.
KernelCheck attentionCheck(const AttentionForm &form, bool isGradient,
                           double tolerance);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_GPU_ATTENTIONTEXTS_H
