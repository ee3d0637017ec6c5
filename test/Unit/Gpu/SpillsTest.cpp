//===- SpillsTest.cpp - Kernels fit in registers --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where ptxas is installed: what it says of attention, whose tiles fill the
// registers, also of attention over a cache, of rows that are kept there, and of
// products with packed weights. What heads of more than 128 features need of
// local memory is listed.
//
//===----------------------------------------------------------------------===//

#include "../Kernels/PagedTexts.h"
#include "AttentionTexts.h"
#include "Chips.h"
#include "GpuKernel.h"
#include "PackedTexts.h"
#include "SignTexts.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <iostream>

using namespace heddle;
using namespace heddle::test;

namespace {

/// Bytes of local memory of a thread; -1 when it is not compiled.
int64_t localBytesOf(const std::string &text, const char *chip) {
  auto module = parseModule(text);
  if (!module)
    return -1;
  auto reports = gpu::compileKernelsForGpu(*module, chip);
  if (failed(reports) || !reports->front().resources)
    return -1;
  return reports->front().resources->localBytes;
}

/// Whether a kernel is compiled for a chip: for both only in a long run.
bool isFor(const std::string &text, const std::string &chip) {
  return llvm::is_contained(chipsFor(text), chip);
}

void expectNoSpill(const std::string &text, const char *chip,
                   const std::string &what) {
  if (isFor(text, chip))
    EXPECT_EQ(localBytesOf(text, chip), 0) << what << " " << chip;
}

/// The attention, or its gradient, of a fused projection.
std::string attentionText(int64_t size, const std::string &type, double p,
                          bool isGradient, int64_t block = 0) {
  AttentionForm form{1024, 2, 2, size, type};
  form.p = p;
  form.packed = true;
  form.block = block;
  return attentionCheck(form, isGradient, 0).text;
}

std::string nameOf(int64_t size, const std::string &type, bool isGradient) {
  return std::string(isGradient ? "gradient, " : "") + type + ", " +
         std::to_string(size);
}

class GpuSpills : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    if (gpu::findPtxas().empty())
      GTEST_SKIP() << "ptxas is not installed";
  }
};

TEST_P(GpuSpills, Attention) {
  std::vector<int64_t> sizes = {3, 64, 128};
  if (isLong())
    sizes = {1,  2,  3,  4,  7,  9,  13,  15,  16,  19,
             20, 40, 64, 72, 80, 96, 104, 112, 120, 128};
  for (int64_t size : sizes)
    for (std::string type : {"bf16", "f16", "f32"})
      for (double p : {0.0, 0.1}) {
        if (!isLong() && (p == 0 || (size > 3 && type == "f32") ||
                          (size != 64 && type == "f16")))
          continue;
        for (bool isGradient : {false, true})
          expectNoSpill(attentionText(size, type, p, isGradient), GetParam(),
                        nameOf(size, type, isGradient));
      }
}

TEST_P(GpuSpills, AttentionWithLayouts) {
  for (int64_t block : casesOf({16}, {32, 64, 128}))
    for (int64_t size : casesOf({128}, {64, 80}))
      for (const char *type :
           casesOf<const char *>({"bf16"}, {"f16", "f32"}))
        for (bool isGradient : {false, true})
          expectNoSpill(attentionText(size, type, /*p=*/0.1, isGradient, block),
                        GetParam(), nameOf(size, type, isGradient));
}

/// A list, in the test's output, of what spills, and by how much. The limits
/// are what ptxas 13.0 asked for at most, of heads in one piece and of slices.
TEST_P(GpuSpills, ListsLargeHeads) {
  std::vector<int64_t> sizes = {288};
  if (isLong())
    sizes = {129, 160, 192, 256, 257, 288, 384, 512, 600};
  for (int64_t size : sizes)
    for (std::string type : {"bf16", "f16", "f32"})
      for (bool isGradient : {false, true}) {
        if (!isLong() && type == "f16")
          continue;
        std::string text = attentionText(size, type, /*p=*/0.1, isGradient);
        if (!isFor(text, GetParam()))
          continue;
        int64_t bytes = localBytesOf(text, GetParam());
        std::string name = nameOf(size, type, isGradient);
        if (bytes != 0)
          std::cout << GetParam() << ", " << name << ": " << bytes
                    << " bytes of local memory\n";
        EXPECT_GE(bytes, 0) << name;
        EXPECT_LE(bytes, size <= 256 ? 568 : 152) << name;
      }
}

/// The shapes of LLaMA 8B and of GPT-2 XL: a token of each of a few requests,
/// and a chunk of a prompt.
TEST_P(GpuSpills, PagedAttention) {
  const Paged llama = {{4000}, 1, 32, 8, 128}, gpt2 = {{1000}, 1, 25, 25, 64};
  const std::pair<const char *, const char *> types[] = {
      {"i8", "bf16"}, {"bf16", "bf16"}, {"i8", "f16"},
      {"f16", "f16"}, {"f32", "f32"},   {"i8", "f32"}};
  for (const auto &[cache, type] : types)
    for (Paged p : {llama, gpt2}) {
      if (!isLong() && (cache != std::string("i8") || p.dims < 128))
        continue;
      p.cache = cache;
      p.type = type;
      std::string what = std::string(cache) + ", " + type + ", " +
                         std::to_string(p.dims) + " features";
      expectNoSpill(fusedKernel(p, PagedResult::Parts), GetParam(),
                    "one request, " + what);
      // With norms of all heads, in f32, 8 bytes spill.
      p.hasNorms = type != std::string("f32");
      expectNoSpill(fusedKernel(p, PagedResult::Parts), GetParam(),
                    "one request, norms of heads, " + what);
      p.hasNorms = false;
      if (!isLong())
        continue;
      p.contexts.resize(8, p.contexts[0]);
      expectNoSpill(pagedKernels(p, PagedResult::Parts).attention, GetParam(),
                    "eight requests, " + what);
      p.contexts.resize(1);
      p.tokens = 512;
      expectNoSpill(pagedKernels(p, PagedResult::Whole).attention, GetParam(),
                    "a prompt, " + what);
    }
}

/// As many registers of a row as a thread may keep, or almost; and a row in
/// memory, with the most threads.
TEST_P(GpuSpills, KeptRows) {
  for (std::string size : {"32003", "32768", "50257"}) {
    std::string type = "tensor<2048x" + size + "xbf16>";
    std::string row = "tensor<2048xf32>", labels = "tensor<2048xi32>";
    expectNoSpill(
        "plan.kernel @k(%x: " + type + ", %l: " + labels + ", %d: " + row +
            ") -> (" + row + ", " + type +
            ") attributes {generator = #plan.generator<rows>, ties = "
            "array<i64: -1, 0>} {\n%loss, %lse = nn.cross_entropy %x, %l : (" +
            type + ", " + labels + ") -> (" + row + ", " + row +
            ")\n%g = nn.cross_entropy_grad %x, %l, %lse, %d : (" + type + ", " +
            labels + ", " + row + ", " + row + ") -> " + type +
            "\nplan.yield %loss, %g : " + row + ", " + type + "\n}",
        GetParam(), "cross-entropy of " + size);
  }
}

/// The products of LLaMA 8B and GPT-2 XL, for one token, for several requests,
/// and for prompts.
TEST_P(GpuSpills, PackedProducts) {
  for (const PackedForm &form :
       {PackedForm{"llama bf16", 4096, 4096, 16, 0},
        PackedForm{"llama int8", 4096, 14336, 8, 0},
        PackedForm{"llama int8 groups", 14336, 4096, 8, 128, true},
        PackedForm{"llama int4", 4096, 6144, 4, 64},
        PackedForm{"llama int4 zeros", 14336, 4096, 4, 128, true},
        PackedForm{"llama int4 small groups", 4096, 4096, 4, 32, true},
        PackedForm{"gpt2-xl bf16", 1600, 6400, 16, 0},
        PackedForm{"gpt2-xl int8", 6400, 1600, 8, 0},
        PackedForm{"gpt2-xl int4", 1600, 4800, 4, 64}})
    for (int64_t rows : {1, 8, 64, 512}) {
      if (rows == 8 && !isLong())
        continue;
      expectNoSpill(packedText(form, rows).text, GetParam(),
                    form.name + (", " + std::to_string(rows)) + " rows");
    }
}

/// The tensors of a layer of GPT-2 124M, which eight replicas average.
TEST_P(GpuSpills, Signs) {
  SignSizes sizes{{1769472, 2304, 589824, 768, 2359296, 3072, 2359296}, 8};
  const std::pair<const char *, std::string> texts[] = {
      {"scales", signs::scales},
      {"scales of chunks", signs::scalesOfChunks},
      {"joined scales", signs::joined},
      {"packing", signs::packed},
      {"packing chunks", signs::packedChunks},
      {"mean", signs::mean},
      {"unpacking", signs::unpackedInto("2")}};
  for (const auto &[name, text] : texts)
    expectNoSpill(sizes.textOf(text, 1), GetParam(), name);
}

INSTANTIATE_TEST_SUITE_P(Chips, GpuSpills, testing::Values("sm_80", "sm_90"));

} // namespace
