//===- KernelImageTest.cpp - Tests of loading kernels ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/KernelImage.h"
#include "BigramPlan.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <gtest/gtest.h>
#include <random>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::test;

/// The diagnostic of loading `bytes`; its code is empty when they load.
static Diagnostic load(const std::vector<char> &bytes) {
  try {
    KernelImage image(bytes.data(), bytes.size());
  } catch (const UserError &error) {
    return error.diagnostic;
  }
  return {};
}

TEST(KernelImage, RunsFunctionsByName) {
  std::vector<char> bytes = readBigramKernels();
  KernelImage image(bytes.data(), bytes.size());
  bytes.assign(bytes.size(), 0); // The image stands on its own.
  int64_t values[2] = {0, 0}, scalars[1] = {40};
  void *refs[] = {values};
  KernelFunction store = image.find("store_thread");
  ASSERT_NE(store, nullptr);
  store(refs, scalars, 1, 2, nullptr, nullptr);
  EXPECT_EQ(values[1], 41);
  EXPECT_EQ(image.find("no_such_kernel"), nullptr);
}

TEST(KernelImage, RelocatesTablesOfPointers) {
  std::vector<char> bytes = readBigramKernels();
  KernelImage image(bytes.data(), bytes.size());
  int64_t value = 4, scalars[2] = {2, 1};
  void *refs[] = {&value};
  image.find("indirect")(refs, scalars, 0, 1, nullptr, nullptr);
  EXPECT_EQ(value, 42);
}

TEST(KernelImage, LoadsFromAnyAddress) {
  std::vector<char> bytes = readBigramKernels();
  bytes.insert(bytes.begin(), 'x');
  KernelImage image(bytes.data() + 1, bytes.size() - 1);
  EXPECT_NE(image.find("bigram_adam"), nullptr);
}

TEST(KernelImage, TakesFunctionsOfTheProcess) {
  KernelImage image;
  image.define("mine",
               [](void *const *refs, const int64_t *, int64_t, int64_t, void *,
                  int64_t *) { *static_cast<int *>(refs[0]) = 5; });
  int value = 0;
  void *refs[] = {&value};
  image.find("mine")(refs, nullptr, 0, 1, nullptr, nullptr);
  EXPECT_EQ(value, 5);
}

TEST(KernelImage, NamesWhatIsDefinedNowhere) {
  Diagnostic diagnostic = load(readFile(HEDDLE_TEST_UNDEFINED));
  EXPECT_EQ(diagnostic.code, "H0384");
  EXPECT_NE(diagnostic.message.find("missing_function"), std::string::npos);
}

TEST(KernelImage, RefusesOtherFiles) {
  EXPECT_EQ(load({}).code, "H0384");
  EXPECT_EQ(load(std::vector<char>(4096, 0)).code, "H0384");
  EXPECT_EQ(load(readFile("/proc/self/exe")).code.substr(0, 3), "H03");
}

TEST(KernelImage, SurvivesTruncation) {
  std::vector<char> whole = readBigramKernels();
  for (size_t size = 0; size < whole.size(); size += 61) {
    std::vector<char> part(whole.begin(), whole.begin() + size);
    EXPECT_EQ(load(part).code, "H0384") << size;
  }
}

TEST(KernelImage, SurvivesDamagedHeaders) {
  std::vector<char> whole = readBigramKernels();
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<char> damaged = whole;
    // The file's header and its program headers.
    damaged[16 + random() % 400] = char(random());
    Diagnostic diagnostic = load(damaged);
    EXPECT_TRUE(diagnostic.code.empty() || diagnostic.code == "H0384");
  }
}
