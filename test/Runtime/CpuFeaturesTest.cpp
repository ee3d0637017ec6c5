//===- CpuFeaturesTest.cpp - Tests of the CPU check -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/CpuFeatures.h"
#include "heddle/runtime/devices/cpu/PeakRate.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sstream>

using namespace heddle;
using namespace heddle::rt;

TEST(CpuFeatures, AgreeWithTheSystem) {
  std::ifstream file("/proc/cpuinfo");
  std::string line, flags;
  while (std::getline(file, line) && flags.empty())
    if (line.rfind("flags", 0) == 0)
      flags = line + " ";
  ASSERT_FALSE(flags.empty());
  const std::pair<const char *, const char *> names[] = {
      {"sse2", "sse2"},         {"sse4.2", "sse4_2"},
      {"avx", "avx"},           {"avx2", "avx2"},
      {"fma", "fma"},           {"f16c", "f16c"},
      {"bmi2", "bmi2"},         {"avx512f", "avx512f"},
      {"avx512bw", "avx512bw"}, {"avx512bf16", "avx512_bf16"},
      {"amx-tile", "amx_tile"}, {"amx-bf16", "amx_bf16"},
      {"avxvnni", "avx_vnni"},  {"avx512fp16", "avx512_fp16"},
      {"amx-int8", "amx_int8"}, {"avx512vnni", "avx512_vnni"},
  };
  for (auto [llvm, linux] : names)
    EXPECT_EQ(hasCpuFeature(llvm),
              flags.find(" " + std::string(linux) + " ") != std::string::npos)
        << llvm;
}

static Diagnostic require(const std::vector<std::string> &features) {
  try {
    requireCpuFeatures(features, "amx");
  } catch (const UserError &error) {
    return error.diagnostic;
  }
  return {};
}

TEST(CpuFeatures, NamesWhatIsMissing) {
  EXPECT_EQ(require({"sse2", "+sse3"}).code, "");
  // No CPU has both: one is AMD's of 2011, the other Intel's of 2023.
  Diagnostic missing = require({"sse2", "xop", "amx-complex"});
  EXPECT_EQ(missing.code, "H0291");
  EXPECT_NE(missing.message.find("--march amx"), std::string::npos);
  EXPECT_TRUE(missing.message.find("xop") != std::string::npos ||
              missing.message.find("amx-complex") != std::string::npos);
  EXPECT_EQ(missing.message.find("sse2"), std::string::npos);
  EXPECT_EQ(missing.exitCode(), 4);
}

TEST(CpuFeatures, RefusesWhatItCannotCheck) {
  Diagnostic unknown = require({"warp-drive"});
  EXPECT_EQ(unknown.code, "H0294");
  EXPECT_NE(unknown.message.find("warp-drive"), std::string::npos);
}

TEST(PeakRate, IsMeasured) {
  ThreadPool pool(1);
  PeakSamples peak = measurePeak(pool, "fp32");
  double best =
      *std::max_element(peak.flopsPerSecond.begin(), peak.flopsPerSecond.end());
  EXPECT_GT(best, 1e8);
  EXPECT_LT(best, 1e12);
  EXPECT_FALSE(peak.unit.empty());
}
