//===- FileTest.cpp - Files of attention layouts --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/AttentionLayout/AttentionLayout.h"
#include "heddle/runtime/io/Safetensors.h"
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::layouts;

namespace {

class LayoutFile : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/heddle-layout-XXXXXX";
    folder = mkdtemp(name);
    path = folder + "/layout.safetensors";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  template <typename T>
  void write(const std::vector<T> &elements, const std::vector<int64_t> &shape,
             const char *type,
             const std::map<std::string, std::string> &metadata = {
                 {"block", "32"}}) {
    io::writeSafetensors(path, {{name, type, shape, elements.data(), {}}},
                         metadata);
  }
  std::string errorOf(const std::function<void()> &step) {
    try {
      step();
    } catch (const UserError &error) {
      EXPECT_FALSE(error.diagnostic.help.empty());
      EXPECT_EQ(error.diagnostic.exitCode(),
                error.diagnostic.code == "H0198" ? 2 : 3);
      return error.diagnostic.code + ": " + error.diagnostic.message;
    }
    return "";
  }
  std::string readError() {
    return errorOf([&] { readLayout(path); });
  }

  std::string folder, path, name = "layout";
};

} // namespace

TEST_F(LayoutFile, IsReadAsWritten) {
  LayoutOptions options = defaultsOf(Mode::BigBird);
  options.differentLayoutPerHead = true;
  options.block = 64;
  AttentionLayout layout = makeLayout(options, 3, 70 * 64);
  writeLayout(layout, 3, path);
  EXPECT_TRUE(readLayout(path) == layout);
  EXPECT_TRUE(readLayoutFor(path, 3, 70 * 64) == layout);
}

TEST_F(LayoutFile, HasEachHead) {
  AttentionLayout layout = makeLayout(defaultsOf(Mode::Fixed), 3, 64);
  EXPECT_EQ(layout.heads(), 1);
  writeLayout(layout, 3, path);
  EXPECT_EQ(readLayout(path).heads(), 3);
  EXPECT_TRUE(readLayoutFor(path, 3, 64) == layout);
}

TEST_F(LayoutFile, OfEachType) {
  AttentionLayout expected(1, 2, 32);
  expected.add(0, 0, 0);
  expected.add(0, 1, 0);
  expected.add(0, 1, 1);
  write<uint8_t>({1, 0, 1, 1}, {1, 2, 2}, "U8");
  EXPECT_TRUE(readLayout(path) == expected);
  write<uint8_t>({1, 0, 1, 1}, {1, 2, 2}, "BOOL");
  EXPECT_TRUE(readLayout(path) == expected);
  write<int32_t>({1, 0, 1, 1}, {1, 2, 2}, "I32");
  EXPECT_TRUE(readLayout(path) == expected);
  write<int64_t>({1, 0, 1, 1}, {1, 2, 2}, "I64");
  EXPECT_TRUE(readLayout(path) == expected);
}

TEST_F(LayoutFile, IsRefusedIfItIsNoLayout) {
  write<float>({1, 0, 1, 1}, {1, 2, 2}, "F32");
  EXPECT_EQ(readError(), "H0308: the tensor \"layout\" has the type F32");
  write<uint8_t>({1, 0, 1, 1}, {2, 2}, "U8");
  EXPECT_EQ(readError(), "H0308: the tensor \"layout\" has the shape [2, 2]");
  write<uint8_t>({1, 0, 1, 1}, {2, 1, 2}, "U8");
  EXPECT_EQ(readError(),
            "H0308: the tensor \"layout\" has the shape [2, 1, 2]");
  write<uint8_t>({0}, {1, 0, 0}, "U8");
  EXPECT_EQ(readError(),
            "H0308: the tensor \"layout\" has the shape [1, 0, 0]");
  write<uint8_t>({1, 0, 2, 1}, {1, 2, 2}, "U8");
  EXPECT_EQ(readError(), "H0308: the tensor \"layout\" has 2 at head 0, row 1, "
                         "column 0");
  write<int32_t>({1, 0, 1, 0, 0, 0, 0, -1}, {2, 2, 2}, "I32");
  EXPECT_EQ(readError(), "H0308: the tensor \"layout\" has -1 at head 1, row "
                         "1, column 1");
  write<int64_t>({1, int64_t(1) << 32, 1, 1}, {1, 2, 2}, "I64");
  EXPECT_EQ(readError().substr(0, 44),
            "H0308: the tensor \"layout\" has 4294967296 at");
  name = "mask";
  write<uint8_t>({1, 0, 1, 1}, {1, 2, 2}, "U8");
  EXPECT_EQ(readError(), "H0308: the file has no tensor \"layout\"");
}

TEST_F(LayoutFile, IsRefusedWithoutTheSizeOfABlock) {
  write<uint8_t>({1, 0, 1, 1}, {1, 2, 2}, "U8", {{"format", "pt"}});
  EXPECT_EQ(readError(), "H0329: the metadata of a layout has no \"block\"");
  for (const char *size : {"", "8", "48", "256", "016", "32 ", "x"}) {
    write<uint8_t>({1, 0, 1, 1}, {1, 2, 2}, "U8", {{"block", size}});
    EXPECT_EQ(readError(),
              "H0329: the metadata of a layout gives blocks of \"" +
                  std::string(size) + "\" tokens");
  }
}

TEST_F(LayoutFile, IsRefusedIfItDoesNotFitTheModel) {
  write<uint8_t>(std::vector<uint8_t>(8, 1), {2, 2, 2}, "U8");
  EXPECT_EQ(readLayoutFor(path, 2, 64).heads(), 1);
  EXPECT_EQ(errorOf([&] { readLayoutFor(path, 4, 64); }),
            "H0198: a layout of 2 heads for a model of 4");
  EXPECT_EQ(errorOf([&] { readLayoutFor(path, 2, 128); }),
            "H0198: a layout of 2 blocks of 32 tokens for sequences of 128");
  write<uint8_t>(std::vector<uint8_t>(4, 1), {1, 2, 2}, "U8");
  EXPECT_EQ(readLayoutFor(path, 4, 64).heads(), 1);
}
