//===- GpuTimeTest.cpp - Predicted times of GPUs against published ones ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rows are figures that others have published about kernels of theirs.
//
//===----------------------------------------------------------------------===//

#include "heddle/Cost/GpuTime.h"
#include <gtest/gtest.h>

using namespace heddle::cost;

namespace {

/// A token that reads `bytes` of weights in `launches` launches of one size.
GpuTime tokenOf(const GpuSpeed &gpu, double bytes, int64_t launches,
                const LaunchCost &cost = LaunchCost()) {
  GpuTime time;
  time.add(gpu, {bytes / double(launches), 0}, launches, cost);
  return time;
}

// The weights of Llama 3.2 1B in bf16: 1.236 billion parameters.
constexpr double llama1B = 2.47e9;
constexpr double dataSheetOfH100 = 3.35e12;

} // namespace

// SGLang and vLLM reach at most 50 % of an H100's bandwidth with about 100
// launches a token, and one kernel reaches 1.5 times SGLang's speed (Hazy
// Research, "Look Ma, No Bubbles!", 2025).
TEST(GpuTime, LlamaOfOneBillionInManyKernels) {
  const GpuSpeed &h100 = *findGpuSpeed("sm_90");
  double seconds = tokenOf(h100, llama1B, 100).seconds();
  double inOneKernel = llama1B / (0.78 * dataSheetOfH100);
  EXPECT_NEAR(llama1B / seconds / dataSheetOfH100, 0.5, 0.05);
  EXPECT_NEAR(seconds / inOneKernel, 1.5, 0.15);
}

// The one kernel reaches 78 % of the bandwidth. It has no launches, but about
// 110 waits of all blocks, of 1 us each.
TEST(GpuTime, LlamaOfOneBillionInOneKernel) {
  const GpuSpeed &h100 = *findGpuSpeed("sm_90");
  double seconds = tokenOf(h100, llama1B, 1).seconds() + 110 * 1e-6;
  EXPECT_NEAR(llama1B / seconds / dataSheetOfH100, 0.78, 0.078);
}

// gpt-fast on an A100 80GB at batch 1: 104.9 tokens a second of a LLaMA of 7
// billion parameters in bf16 and 155.6 in int8. torch.compile makes about eight
// launches a layer, of 32 layers.
TEST(GpuTime, LlamaOfSevenBillionByTorchCompile) {
  const GpuSpeed &a100 = *findGpuSpeed("sm_80");
  EXPECT_NEAR(1 / tokenOf(a100, 13.2e9, 260).seconds(), 104.9, 10.5);
  EXPECT_NEAR(1 / tokenOf(a100, 6.9e9, 260).seconds(), 155.6, 31.2);
}

// Marlin's int4 product, groups of 128, is 3.87 times as fast as fp16 on an
// A10, at a size where launches do not count.
TEST(GpuTime, MarlinsProduct) {
  const GpuSpeed a10 = {"A10", 0.9 * 600e9, 72, 1.695e9, 125e12};
  constexpr double weights = 18432.0 * 73728;
  double fp16 = tokenOf(a10, 2 * weights, 1).seconds();
  double int4 = tokenOf(a10, (4 + 16.0 / 128) / 8 * weights, 1).seconds();
  EXPECT_NEAR(fp16 / int4, 3.87, 0.387);
}

TEST(GpuTime, IssueSlotsBoundLaunches) {
  const GpuSpeed gpu = {"", 100, 2, 5, 50}; // 40 instructions a second.
  GpuTime time;
  time.add(gpu, {100, 80}, 3, {0.25, 0.25});
  EXPECT_DOUBLE_EQ(time.issue, 6);
  EXPECT_DOUBLE_EQ(time.memory, 0);
  EXPECT_DOUBLE_EQ(time.launches, 1.5);
  EXPECT_DOUBLE_EQ(time.seconds(), 7.5);
  EXPECT_DOUBLE_EQ(time.shareOfCopy(gpu), 300 / 7.5 / 100);
  EXPECT_STREQ(time.bound(), "issue slots");
}

TEST(GpuTime, TensorCoresBoundLaunches) {
  const GpuSpeed gpu = {"", 100, 2, 5, 50};
  GpuTime time;
  time.add(gpu, {100, 80, 200}, 3, {0.25, 0.25});
  EXPECT_DOUBLE_EQ(time.tensor, 12);
  EXPECT_DOUBLE_EQ(time.issue, 0);
  EXPECT_DOUBLE_EQ(time.seconds(), 13.5);
  EXPECT_STREQ(time.bound(), "tensor cores");
}

TEST(GpuTime, OtherTargetsHaveNone) {
  EXPECT_EQ(findGpuSpeed("x86-64"), nullptr);
}
