//===- PtxImageTest.cpp - Tests of images of GPU kernels ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/PtxImage.h"
#include <gtest/gtest.h>

using namespace heddle;

namespace {

TEST(PtxImage, HoldsWhatWasWritten) {
  plan::PtxImage image;
  image.texts = {"one", "two", "three"};
  image.cubins = {std::string("a\0b", 3), "", "c"};
  std::string bytes = plan::writePtxImage(image);
  auto read = plan::readPtxImage(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->texts, image.texts);
  EXPECT_EQ(read->cubins, image.cubins);
  bytes.pop_back();
  EXPECT_FALSE(plan::readPtxImage(bytes));
  EXPECT_FALSE(plan::readPtxImage(bytes.substr(0, 20)));
}

/// One that says less of its plain kernels, as an earlier version's, is none.
TEST(PtxImage, OfAnotherVersionIsNone) {
  plan::PlainKernel plain;
  plain.launches.resize(1);
  plain.terms = {7};
  std::string text = plan::writePlainKernel(plain);
  EXPECT_TRUE(plan::readPlainKernel(text));
  plan::PtxImage image;
  image.plain = {plain};
  std::string bytes = plan::writePtxImage(image);
  EXPECT_TRUE(plan::readPtxImage(bytes));
  for (const char *key : {"terms", "launches", "results"}) {
    auto without = [key](std::string json) {
      std::string quoted = '"' + std::string(key) + '"';
      return json.replace(json.find(quoted), quoted.size(), "\"other\"");
    };
    EXPECT_FALSE(plan::readPlainKernel(without(text))) << key;
    EXPECT_FALSE(plan::readPtxImage(without(bytes))) << key;
  }
}

} // namespace
