//===- ExtendTableTest.cpp - Tests of longer tables -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/ExtendTable.h"
#include "IoTestSupport.h"

using namespace heddle;
using namespace heddle::io;

/// Saves the table as a file with rows of one element, and returns the extended
/// table.
static std::vector<float> extendedOf(const std::vector<float> &table,
                                     const plan::ExtendedTable &how,
                                     const std::string &type = "F32") {
  TestDirectory directory;
  std::vector<uint8_t> bytes(table.size() * dtypeBits(type) / 8);
  convertElements(table.data(), "F32", bytes.data(), type, table.size());
  std::string file = directory / "model.safetensors";
  writeSafetensors(
      file,
      {{"wpe.weight", type, {int64_t(table.size()), 1}, bytes.data(), {}}});
  WeightSet set = openSafetensors(file);
  extendTable(set, set.at("wpe.weight"), how);
  const TensorInfo &info = set.at("wpe.weight");
  EXPECT_EQ(info.dtype, type);
  EXPECT_EQ(info.bytes, info.numElements() * dtypeBits(type) / 8);
  std::vector<float> values(info.numElements());
  auto held = set.hold(info);
  set.forget(info, 0, info.bytes);
  convertElements(held.get(), type, values.data(), "F32", values.size());
  return values;
}

using Row = std::vector<float>;

TEST(ExtendTable, RepeatsAndCutsTheLastCopy) {
  EXPECT_EQ(extendedOf({1, 2, 3}, {"", 8, 0, false}),
            Row({1, 2, 3, 1, 2, 3, 1, 2}));
  EXPECT_EQ(extendedOf({8, 9, 1, 2, 3}, {"", 9, 2, false}),
            Row({8, 9, 1, 2, 3, 1, 2, 3, 1}));
}

TEST(ExtendTable, InterpolatesBetweenBothEnds) {
  EXPECT_EQ(extendedOf({1, 3, 2}, {"", 5, 0, true}), Row({1, 2, 3, 2.5, 2}));
  EXPECT_EQ(extendedOf({8, 9, 1, 3, 2}, {"", 7, 2, true}),
            Row({8, 9, 1, 2, 3, 2.5, 2}));
  EXPECT_EQ(extendedOf({4}, {"", 3, 0, true}), Row({4, 4, 4}));
}

TEST(ExtendTable, KeepsTheTypeOfTheFile) {
  // 1 + 2^-8 has no BF16, and is rounded to even.
  EXPECT_EQ(extendedOf({1, 1.0078125}, {"", 3, 0, true}, "BF16"),
            Row({1, 1, 1.0078125}));
  EXPECT_EQ(extendedOf({1, 2}, {"", 3, 0, false}, "F16"), Row({1, 2, 1}));
}

TEST(ExtendTable, LeavesTablesThatAreLongEnough) {
  EXPECT_EQ(extendedOf({1, 2, 3}, {"", 3, 0, false}), Row({1, 2, 3}));
  EXPECT_EQ(extendedOf({1, 2, 3}, {"", 2, 0, false}), Row({1, 2, 3}));
}
