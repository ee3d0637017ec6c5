//===- AttentionTest.cpp - Attention in the emulator ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTexts.h"
#include "GpuKernel.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <cstring>

using namespace heddle::test;

namespace {

void check(const AttentionForm &form, double inF32 = 1e-5) {
  for (bool isGradient : {false, true})
    attentionCheck(form, isGradient, form.type == "f32" ? inF32 : 2e-2).run();
}

TEST(GpuAttention, SequenceLengths) {
  for (int64_t seq : {1, 7, 33, 130})
    for (const char *type : typesOf("", seq / 2))
      check({seq, 1, 1, 20, type, /*causal=*/seq != 33});
}

TEST(GpuAttention, HeadSizes) {
  for (auto [number, headDim] :
       llvm::enumerate(casesOf({1, 64, 80, 192}, {3, 128})))
    for (const char *type : typesOf("", number))
      check({40, 1, 1, headDim, type, /*causal=*/headDim == 64});
}

/// In slices of features, which divide them or not; alone, and with everything
/// that takes part in a score.
TEST(GpuAttention, WideHeads) {
  for (int64_t headDim : casesOf({288, 321}, {512}))
    for (const char *type : typesOf("", headDim))
      check({headDim == 288 ? 33 : 17, 1, 1, headDim, type,
             /*causal=*/headDim != 288});
  for (const char *type : casesOf<const char *>({"bf16"}, {"f32"})) {
    AttentionForm form = {19, 2, 1, 320, type, true, /*p=*/0.25};
    form.hasLengths = form.packed = true;
    form.window = 9;
    form.softcap = 3;
    // The first query sees one key: what ought to be zero is as far off as
    // sums of so many features.
    check(form, 2e-5);
  }
}

TEST(GpuAttention, GroupsOfHeads) {
  for (const char *type : {"f32", "bf16", "f16"})
    for (bool packed : {false, true})
      check({37, 6, 2, 16, type, true, 0, false, packed});
}

TEST(GpuAttention, Dropout) {
  for (int64_t seq : {7, 68, 132})
    for (const char *type : typesOf("", seq % 7))
      check({seq, 2, 1, 16, type, seq != 68, /*p=*/0.25});
}

/// The masks of some heads are those of all heads.
TEST(GpuAttention, DropoutOfPartsOfTheHeads) {
  for (int64_t seq : {36, 37})
    for (const char *type : typesOf("", seq)) {
      AttentionForm form = {seq, 2, 2, 8, type, true, /*p=*/0.25};
      form.parts = 3;
      check(form);
    }
}

TEST(GpuAttention, Lengths) {
  for (int64_t seq : {1, 70, 131})
    for (const char *type : typesOf("", seq))
      check({seq, 2, 2, 24, type, seq == 131, 0, /*hasLengths=*/true});
}

TEST(GpuAttention, WindowsAndSoftCaps) {
  for (auto [seq, window, softcap] :
       {std::tuple{7, 2, 0.0}, {131, 20, 0.0}, {131, 65, 1.5}, {41, 0, 1.5}})
    for (const char *type : typesOf("", window / 2)) {
      AttentionForm form = {seq, 2, 1, 16, type};
      form.window = window;
      form.softcap = softcap;
      form.hasLengths = seq == 131;
      check(form);
    }
}

/// Blocks smaller than a tile, as large, and larger; alone, and with everything
/// that takes part in a score. A query may see no key.
TEST(GpuAttention, Layouts) {
  for (auto [number, block] :
       llvm::enumerate(std::vector<int64_t>{16, 32, 64, 128}))
    for (bool causal : {false, true})
      for (const char *type : typesOf("", number + 2 * causal)) {
        if (!isLong() && causal != (number % 2 == 0))
          continue;
        int64_t whole = isLong() || block < 64 ? 2 : 1; // Whole blocks.
        AttentionForm form = {whole * block + 21, 2, 2, 16, type, causal};
        form.block = block;
        form.hasLayoutOfHeads = causal;
        check(form);
      }
  for (auto [number, block] : llvm::enumerate(casesOf({16, 64}, {32, 128})))
    for (const char *type : typesOf("layout", number)) {
      AttentionForm form = {100, 4, 2, 24, type, number == 0, /*p=*/0.25};
      form.hasLengths = form.packed = true;
      form.softcap = 1.5;
      form.block = block;
      form.hasLayoutOfHeads = true;
      check(form);
      // Lanes do not share draws of random numbers.
      form.seq = 99;
      form.hasLengths = form.packed = false;
      form.softcap = 0;
      if (isLong() || number == 0)
        check(form);
    }
}

/// A rank's heads have their own layouts.
TEST(GpuAttention, LayoutsOfPartsOfTheHeads) {
  for (const char *type : typesOf("", 1)) {
    AttentionForm form = {70, 2, 2, 8, type};
    form.block = 32;
    form.hasLayoutOfHeads = true;
    form.parts = 3;
    check(form);
  }
}

/// More blocks than a word has bits and a warp lists at a time.
TEST(GpuAttention, LayoutsOfManyBlocks) {
  for (const char *type : typesOf("", 2)) {
    AttentionForm form = {16 * 34 + 3, 1, 1, 4, type, /*causal=*/false};
    form.block = 16;
    form.density = 0.1;
    check(form);
  }
}

/// More blocks than the list of a thread block has room for. With larger blocks
/// the same layout has few enough.
TEST(GpuAttention, LayoutsListedInParts) {
  AttentionForm form = {16512, 1, 1, 4};
  int64_t elements = 2 * form.seq * 4, lse = 2 * form.seq;
  auto has = [](int64_t row, int64_t column) {
    return (7 * row + 5 * column) % 31 == 0 || std::abs(row - column) <= 1;
  };
  auto run = [&](int64_t block, bool isGradient) {
    form.block = block;
    auto [layouts, blocks, words] = form.layoutShape();
    Buffer layout(blocks * words, Element::F32);
    std::vector<uint32_t> bits(blocks * words, 0);
    for (int64_t row = 0; row < blocks; ++row)
      for (int64_t column = 0; column < blocks; ++column)
        if (has(row * block / 128, column * block / 128))
          bits[row * words + column / 32] |= uint32_t(1) << column % 32;
    std::memcpy(layout.data(), bits.data(), bits.size() * sizeof(uint32_t));
    std::vector<Buffer> tensors(isGradient ? 9 : 5,
                                Buffer(elements, Element::F32));
    tensors[isGradient ? 2 : 4] = Buffer(lse, Element::F32);
    std::vector<Buffer *> buffers;
    for (auto [number, tensor] : llvm::enumerate(tensors)) {
      tensor.fill(number);
      if (number == (isGradient ? 6 : 3))
        buffers.push_back(&layout);
      buffers.push_back(&tensor);
    }
    EXPECT_EQ(emulateKernel(attentionCheck(form, isGradient, 0).text, buffers),
              "");
    std::vector<std::vector<double>> results;
    for (size_t i = isGradient ? 6 : 3; i < tensors.size(); ++i) {
      std::vector<double> &result = results.emplace_back();
      for (int64_t element = 0; element < tensors[i].size(); ++element)
        result.push_back(tensors[i].at(element));
    }
    return results;
  };
  for (bool isGradient : casesOf({false}, {true})) {
    auto inParts = run(16, isGradient), whole = run(128, isGradient);
    for (auto [result, other] : llvm::zip(inParts, whole))
      for (auto [x, y] : llvm::zip(result, other))
        ASSERT_NEAR(x, y, 1e-5 * std::max(1.0, std::abs(y)));
  }
}

TEST(GpuAttention, LayoutsOfWideHeads) {
  for (const char *type : casesOf<const char *>({"bf16"}, {"f16", "f32"}))
    for (int64_t block : casesOf({16}, {64})) {
      AttentionForm form = {70, 2, 1, 288, type};
      form.block = block;
      check(form, 2e-5);
    }
}

} // namespace
