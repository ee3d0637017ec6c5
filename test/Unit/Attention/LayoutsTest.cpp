//===- LayoutsTest.cpp - Attention with layouts of blocks -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTest.h"
#include <sys/mman.h>

using namespace mlir;
using namespace heddle;
using namespace heddle::cpu;
using namespace heddle::test;

namespace {

class LayoutsTest : public AttentionTest {};

TEST_P(LayoutsTest, EachSizeOfBlocks) {
  auto checkLayout = [&](Case test, int64_t block, int64_t layouts = 1) {
    test.block = block;
    test.layouts = layouts;
    check(test);
  };
  for (int64_t block : {16, 32, 64, 128})
    for (Kind kind : {Kind::F32, Kind::BF16, Kind::F16})
      for (bool causal : {false, true})
        if (isLong() || causal == ((block + int(kind)) % 2 == 0))
          checkLayout({1, 5 * block, 2, 2, 24, causal, true, kind}, block, 2);
  // More than 32 blocks, the last of which is not whole.
  checkLayout({2, 1047, 2, 1, 40, false}, 16);
  checkLayout({1, 150, 4, 2, 64, true, /*packed=*/false}, 64, 4);
  // Sequences that are shorter than a block.
  checkLayout({2, 37, 1, 1, 8, false}, 128);
  for (Kind kind : {Kind::F32, Kind::BF16}) {
    Case test = {3, 150, 4, 2, 16, kind == Kind::F32, false, kind, /*p=*/0.25};
    test.scale = 0.9;
    test.softcap = 1.5;
    test.lengths = {149, 60, 0};
    checkLayout(test, 16, 4);
  }
  Case test = {1, 128, 2, 2, 16, true, true, Kind::F32, /*p=*/0.1};
  test.parts = 3;
  test.part = 2;
  checkLayout(test, 32, 6);
  test.density = 1;
  checkLayout(test, 32);
}

/// Memory of zeros, in whole pages.
struct Pages {
  explicit Pages(int64_t bytes)
      : bytes(bytes),
        data(static_cast<char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  Pages(const Pages &) = delete;
  ~Pages() { munmap(data, bytes); }
  int64_t bytes;
  char *data;
};

/// Nothing reads the keys and values of blocks that no query sees.
TEST_P(LayoutsTest, UnseenKeysAreNotRead) {
  // A block of keys is a page of memory.
  constexpr int64_t blocks = 8, block = 16, page = 4096;
  Case test = {1, blocks * block, 1, 1, 64, /*causal=*/false, /*packed=*/false};
  test.block = block;
  AttentionSpec spec = makeSpec(test);
  // All queries see the blocks 1 and 6, those of block 2 nothing.
  std::vector<int32_t> layout(blocks, 1 << 1 | 1 << 6);
  layout[2] = 0;
  const int64_t bytes = blocks * page;
  Pages q(bytes), k(bytes), v(bytes), output(bytes), grad(bytes);
  Pages gradQ(bytes), gradK(bytes), gradV(bytes), lse(page);
  for (int64_t number : {0, 2, 3, 4, 5, 7})
    for (Pages *pages : {&k, &v})
      ASSERT_EQ(mprotect(pages->data + number * page, page, PROT_NONE), 0);
  std::fill(gradK.data, gradK.data + bytes, '\xff');
  AttentionRunner(*context, spec, target, AttentionRunner::Pass::Forward, false)
      .runAll({q.data, k.data, v.data, output.data, lse.data, layout.data()},
              {}, /*threads=*/2);
  AttentionRunner(*context, spec, target, AttentionRunner::Pass::Gradient,
                  false)
      .runAll({grad.data, q.data, k.data, v.data, output.data, lse.data,
               gradQ.data, gradK.data, gradV.data, layout.data()},
              {}, /*threads=*/2);
  EXPECT_EQ(std::count(gradK.data, gradK.data + bytes, 0), bytes);
}

/// Threads share out the blocks of a layout, and those of a row of the batch
/// with fewer tokens count less.
TEST_P(LayoutsTest, ThreadsShareTheBlocks) {
  Case test = {2, 64, 2, 2, 16, /*causal=*/false};
  test.block = 16;
  for (int64_t layouts : {1, 2}) {
    test.layouts = layouts;
    // The first block of queries sees all keys, the others one block.
    std::vector<int32_t> layout;
    for (int64_t head = 0; head < layouts; ++head)
      layout.insert(layout.end(), {15, 1, 1, 1});
    std::vector<int32_t> lengths = {64, 0};
    PackedTensors inputs(test);
    for (Tensor &tensor : inputs.tensors)
      std::fill(tensor.bytes.begin(), tensor.bytes.end(), 0);
    Tensor output(inputs.size(0), Kind::F32);
    Tensor lse(test.batch * test.heads * test.seq, Kind::F32);
    AttentionRunner runner(*context, makeSpec(test), target,
                           AttentionRunner::Pass::Forward, true);
    size_t bytes = (runner.scratchBytes() + 63) / 64 * 64;
    std::unique_ptr<void, decltype(&std::free)> scratch(
        std::aligned_alloc(64, bytes), &std::free);
    runner.run({inputs.tensors[0].data(), output.data(), lse.data(),
                lengths.data(), layout.data()},
               {}, /*thread=*/0, /*threads=*/2, scratch.get());
    // A block of the layout costs as much as a block of queries without keys.
    // So the first block of queries of a head costs 5 units, the others 2, and
    // those of the empty row 1: a half of the 30 units ends within the first
    // block of the second head, which the first thread computes.
    EXPECT_FALSE(std::isnan(lse.get(test.seq)));
    EXPECT_TRUE(std::isnan(lse.get(test.seq + test.block)));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, LayoutsTest,
                         testing::Values("native", "x86-64-v4", "x86-64-v3"));

} // namespace
