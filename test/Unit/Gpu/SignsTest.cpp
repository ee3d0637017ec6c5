//===- SignsTest.cpp - Kernels of averages in one bit, on GPUs ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of NNSignOps.td for cases that only matter where warps share
// words: more tensors than a warp has words, tensors of several pieces, many
// replicas, and padding of inputs that is not zero.
//
//===----------------------------------------------------------------------===//

#include "../Kernels/KernelReference.h"
#include "GpuKernel.h"
#include "SignTexts.h"
#include "gtest/gtest.h"
#include <cstring>

using namespace heddle::test;
using namespace heddle::test::signs;

namespace {

void check(const SignSizes &sizes, const std::string &text, int64_t rows,
           int64_t first = -1) {
  KernelCheck check{sizes.textOf(text, rows)};
  if (first >= 0)
    check.scalars = {first};
  check.run();
}

void checkAll(const SignSizes &sizes, int64_t rows = 1) {
  check(sizes, scales, rows);
  check(sizes, packed, rows);
  for (int64_t first : {int64_t(0), sizes.parts - rows}) {
    check(sizes, scalesOfChunks, rows, first);
    check(sizes, packedChunks, rows, first);
    check(sizes, mean, rows, first);
  }
  for (const char *tie : {"2", "-1"})
    check(sizes, unpackedInto(tie), 1);
}

TEST(GpuSigns, ManyTensors) {
  SignSizes sizes;
  sizes.parts = 3;
  for (int64_t i = 0; i < 40; ++i)
    sizes.counts.push_back(1 + i * 37 % 150);
  checkAll(sizes, 2);
}

/// More than a piece of 65536 elements of a tensor, and of a chunk.
TEST(GpuSigns, Pieces) {
  checkAll({{70, 66001}, 1});
  if (isLong()) {
    checkAll({{70, 200100, 129}, 2});
    checkAll({{131072, 65536, 131073}, 1});
  }
}

TEST(GpuSigns, ManyReplicas) { checkAll({{5000, 64, 4097, 1}, 64}); }

/// Behind the last tensor, where ZeRO divides the bucket.
TEST(GpuSigns, PaddingOfRows) { checkAll({{100, 64, 330, 7}, 3, 192}, 2); }

/// If the condition is 0, scales are 0 and a mean stays what it was.
TEST(GpuSigns, Conditions) {
  SignSizes sizes{{100, 64, 330, 7}, 3, 64};
  Buffer zero(1, Element::F32), x(2 * sizes.bucket(), Element::F32);
  Buffer scale(2 * 4, Element::F32);
  std::memset(zero.data(), 0, sizeof(float));
  x.fill(1);
  scale.fill(2);
  ASSERT_EQ(emulateKernel(sizes.textOf(scales, 2), {&x, &zero, &scale}), "");
  for (int64_t i = 0; i < scale.size(); ++i)
    EXPECT_EQ(scale.at(i), 0);
  Buffer words(sizes.chunks() * 3 / 32, Element::F32);
  Buffer before(sizes.bucket(), Element::F32);
  Buffer result(sizes.bucket(), Element::F32);
  Buffer scalesOfParts(3 * 4, Element::F32);
  for (Buffer *buffer : {&words, &before, &result, &scalesOfParts})
    buffer->fill(3);
  result.fill(4);
  ASSERT_EQ(emulateKernel(sizes.textOf(unpackedInto("-1"), 1),
                          {&words, &scalesOfParts, &before, &zero, &result}),
            "");
  ASSERT_EQ(emulateKernel(sizes.textOf(unpackedInto("2"), 1),
                          {&words, &scalesOfParts, &before, &zero}),
            "");
  Buffer same(sizes.bucket(), Element::F32);
  same.fill(3);
  for (int64_t i = 0; i < same.size(); ++i) {
    EXPECT_EQ(before.at(i), same.at(i));
    EXPECT_EQ(result.at(i), same.at(i));
  }
}

} // namespace
