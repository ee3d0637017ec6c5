//===- RoundingTest.cpp - How kernels round to narrower types -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"
#include "KernelReference.h"
#include "heddle/Codegen/CPU/KernelCompiler.h"
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;

namespace {

/// To nearest and even, as the hardware does it; a NaN stays one.
TEST(Rounding, ToBf16) {
  const char *text = R"(
    plan.kernel @k(%x: tensor<8xf32>) -> tensor<8xbf16>
        attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
      %y = nn.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
      plan.yield %y : tensor<8xbf16>
    })";
  ParsedKernel parsed(text);
  std::vector<uint32_t> values = {0x3f808000, 0x3f818000, 0x3f808001,
                                  0x7f7fffff, 0xff800000, 0x80000000,
                                  0x7f800001, 0xffffffff};
  std::vector<uint16_t> expected = {0x3f80, 0x3f82, 0x3f81, 0x7f80,
                                    0xff80, 0x8000, 0x7fc0, 0xffff};
  for (const char *march : {"native", "x86-64-v3"}) {
    std::vector<uint16_t> rounded(values.size());
    LoadedKernel(parsed.kernel, *cpu::CpuTarget::parse(march))
        .run({values.data(), rounded.data()}, {}, 1);
    EXPECT_EQ(rounded, expected) << march;
  }
}

} // namespace
