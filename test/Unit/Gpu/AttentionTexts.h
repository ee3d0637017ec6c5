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

namespace heddle::test {

/// One attention, of a batch of two.
struct AttentionForm {
  int64_t seq, heads, kvHeads, headDim;
  std::string type = "f32";
  bool causal = true;
  double p = 0;
  bool hasLengths = false;
  bool packed = false;
  int64_t parts = 1; ///< With dropout: of the heads, of which this is the last.
  int64_t window = 0;
  double softcap = 0;
};

/// The check of the forward pass or the gradient.
KernelCheck attentionCheck(const AttentionForm &form, bool isGradient,
                           double tolerance);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_GPU_ATTENTIONTEXTS_H
