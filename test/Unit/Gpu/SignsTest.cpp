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
    check(sizes, joined, rows, first);
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

/// The last blocks of a bucket of more than 2^32 elements.
TEST(GpuSigns, LargeBuckets) {
  constexpr int64_t first = int64_t(1) << 32;
  SignSizes sizes{{first, 100, 3000}, 2};
  constexpr int64_t begin = first + 128;
  int64_t words = sizes.chunks() / 32;
  ZeroMemory x(sizes.bucket() * 4), packs(2 * words * 4), own(2 * 3 * 4);
  auto *element = static_cast<float *>(x.address);
  auto *word = static_cast<uint32_t *>(packs.address);
  auto *scale = static_cast<float *>(own.address);
  // The second chunk of the last tensor has 1464 elements, in 46 words.
  constexpr int64_t chunk = 1536, rest = 3000 - chunk;
  scale[2] = 0.5;
  element[begin + chunk + 35] = -2;
  runBlocks(
      sizes.textOf(packed, 1),
      {{x.address, x.bytes}, {own.address, 12}, {packs.address, packs.bytes}},
      {1});
  const uint32_t *last = word + 2 * words - chunk / 32;
  EXPECT_EQ(last[0], 0xffffffffU);
  EXPECT_EQ(last[1], 0xfffffff7U);
  EXPECT_EQ(last[rest / 32], (1U << rest % 32) - 1);
  EXPECT_EQ(last[rest / 32 + 1], 0U);
  EXPECT_EQ(element[begin + chunk + 34], -0.5F);
  EXPECT_EQ(element[begin + chunk + 35], -1.5F);
  EXPECT_EQ(element[begin + 3000], 0.0F);
  // Back, with other scales.
  ZeroMemory condition(4);
  *static_cast<float *>(condition.address) = 1;
  scale[5] = 3;
  runBlocks(sizes.textOf(unpackedInto("2"), 1),
            {{packs.address, packs.bytes},
             {own.address, own.bytes},
             {x.address, x.bytes},
             {condition.address, 4}},
            {1});
  EXPECT_EQ(element[begin + chunk + 34], 3.0F);
  EXPECT_EQ(element[begin + chunk + 35], -3.0F);
  EXPECT_EQ(element[begin + 2999], 3.0F);
  EXPECT_EQ(element[begin + 3000], 0.0F);
}

} // namespace
