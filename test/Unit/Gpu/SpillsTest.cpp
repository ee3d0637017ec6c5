//===- SpillsTest.cpp - Kernels fit in registers --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where ptxas is installed: what it says of attention, whose tiles fill the
// registers, and of rows that are kept there. Heads of more than 128 features
// spill.
//
//===----------------------------------------------------------------------===//

#include "AttentionTexts.h"
#include "GpuKernel.h"
#include "gtest/gtest.h"
#include <cstdlib>

using namespace heddle;
using namespace heddle::test;

namespace {

bool isLong() {
  const char *value = std::getenv("HEDDLE_TEST_LONG");
  return value && value[0] == '1';
}

void expectNoSpill(const std::string &text, const char *chip,
                   const std::string &what) {
  auto module = parseModule(text);
  ASSERT_TRUE(module) << what;
  auto reports = gpu::compileKernelsForGpu(*module, chip);
  ASSERT_TRUE(succeeded(reports)) << what;
  ASSERT_TRUE(reports->front().resources) << what;
  EXPECT_EQ(reports->front().resources->localBytes, 0) << what << " " << chip;
}

class GpuSpills : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    if (gpu::findPtxas().empty())
      GTEST_SKIP() << "ptxas is not installed";
  }
};

TEST_P(GpuSpills, Attention) {
  std::vector<int64_t> sizes = {3, 96};
  if (isLong())
    sizes = {1,  2,  3,  4,  7,  9,  13,  15,  16,  19,
             20, 40, 64, 72, 80, 96, 104, 112, 120, 128};
  for (int64_t size : sizes)
    for (const char *type : {"bf16", "f32"})
      for (double p : {0.0, 0.1}) {
        if (!isLong() && size > 3 && (p == 0 || type == std::string("f32")))
          continue;
        AttentionForm form{1024, 2, 2, size, type};
        form.p = p;
        form.packed = true;
        for (bool isGradient : {false, true})
          expectNoSpill(attentionCheck(form, isGradient, 0).text, GetParam(),
                        std::string(isGradient ? "gradient, " : "") + type +
                            ", " + std::to_string(size));
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

INSTANTIATE_TEST_SUITE_P(Chips, GpuSpills, testing::Values("sm_80", "sm_90"));

} // namespace
