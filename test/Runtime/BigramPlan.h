//===- BigramPlan.h - A plan for the kernels in BigramKernels.c -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_BIGRAMPLAN_H
#define HEDDLE_TEST_RUNTIME_BIGRAMPLAN_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::test {

/// Extents of the bigram model's plan.
struct BigramShape {
  static constexpr int64_t vocab = 256;
  static constexpr int64_t accumulate = 2, microBatch = 2, seq = 16;
  static constexpr int64_t batch = accumulate * microBatch;
};

/// A plan that trains, evaluates and generates, on at most two threads.
plan::Plan makeBigramPlan();

/// The bytes of the shared object that holds the kernels.
std::vector<char> readBigramKernels();

/// The same kernels for a GPU: a PtxImage, and how each is launched.
std::vector<char> readBigramPtx();
std::vector<plan::Kernel> listBigramPtx();

/// The bytes of a file.
std::vector<char> readFile(const std::string &path);

} // namespace heddle::test

#endif // HEDDLE_TEST_RUNTIME_BIGRAMPLAN_H
