//===- RecordedTest.cpp - Layouts against those of DeepSpeed --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares layouts with those that DeepSpeed 0.19.6 makes of the same settings.
// test/Oracles/record_layouts.py wrote the record. Random blocks are the first
// ones of their range in the record.
//
//===----------------------------------------------------------------------===//

#include "heddle/AttentionLayout/AttentionLayout.h"
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

using namespace heddle;
using namespace heddle::layouts;
using nlohmann::json;

static std::string textOf(const json &value) {
  if (value.is_boolean())
    return value.get<bool>() ? "true" : "false";
  if (value.is_string())
    return value.get<std::string>();
  if (!value.is_array())
    return value.dump();
  std::string text;
  for (const json &element : value)
    text += (text.empty() ? "" : ",") + element.dump();
  return text.empty() ? "none" : text;
}

/// Returns the options of a line of the record, or nothing if one of them is
/// out of its range.
static std::optional<LayoutOptions> optionsOf(const json &line) {
  LayoutOptions options = defaultsOf(*parseMode(line["mode"]));
  for (const auto &[key, value] : line["options"].items()) {
    const LayoutOption *option = findOption(key);
    if (!option || !option->isOf(options.mode)) {
      ADD_FAILURE() << line["mode"] << " has no option " << key;
      return std::nullopt;
    }
    std::string text = textOf(value);
    if (!option->accepts(text))
      return std::nullopt;
    option->set(options, text);
  }
  return options;
}

/// Adds the first blocks of each row, as many as the options draw.
static AttentionLayout withFirstBlocks(const AttentionLayout &layout,
                                       int64_t count) {
  AttentionLayout all = layout;
  for (int64_t head = 0; head < layout.heads(); ++head)
    for (int64_t row = 0; row < layout.blocks(); ++row)
      for (int64_t column = 0; column < count; ++column)
        all.add(head, row, column);
  return all;
}

/// FNV-1a, 64 bits, of the bytes 0 and 1.
static std::string hashOf(const AttentionLayout &layout, int64_t heads,
                          int64_t &ones) {
  uint64_t value = 0xCBF29CE484222325;
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t row = 0; row < layout.blocks(); ++row)
      for (int64_t column = 0; column < layout.blocks(); ++column) {
        uint64_t bit = layout.has(head, row, column);
        ones += int64_t(bit);
        value = (value ^ bit) * 0x100000001B3;
      }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
  return text;
}

static std::vector<json> readRecord() {
  std::ifstream lines(HEDDLE_TEST_INPUTS "/attention-layouts.jsonl");
  std::vector<json> record;
  for (std::string line; std::getline(lines, line);)
    record.push_back(json::parse(line));
  return record;
}

TEST(RecordedLayouts, AreMadeBlockForBlock) {
  int made = 0;
  for (const json &line : readRecord()) {
    if (line.contains("refused"))
      continue;
    SCOPED_TRACE(line.dump());
    std::optional<LayoutOptions> options = optionsOf(line);
    ASSERT_TRUE(options);
    ++made;
    const int64_t drawn = findOption("num_random_blocks")->isOf(options->mode)
                              ? options->numRandomBlocks
                              : 0;
    options->numRandomBlocks = 0;
    AttentionLayout layout = withFirstBlocks(
        makeLayout(*options, line["heads"], line["seq"]), drawn);
    int64_t ones = 0;
    EXPECT_EQ(hashOf(layout, line["heads"], ones), line["hash"]);
    EXPECT_EQ(ones, line["ones"]);
  }
  EXPECT_EQ(made, 300);
}

TEST(RecordedLayouts, AreRefusedWhereDeepSpeedRefuses) {
  int refused = 0;
  std::set<std::string> codes;
  for (const json &line : readRecord()) {
    if (!line.contains("refused"))
      continue;
    SCOPED_TRACE(line.dump());
    ++refused;
    std::optional<LayoutOptions> options = optionsOf(line);
    if (!options)
      continue; // Out of the range of a flag.
    try {
      makeLayout(*options, line["heads"], line["seq"]);
      ADD_FAILURE() << "not refused";
    } catch (const UserError &error) {
      EXPECT_FALSE(error.diagnostic.help.empty());
      codes.insert(error.diagnostic.code);
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_EQ(codes, (std::set<std::string>{"H0175", "H0192"}));
}
