//===- LayoutTest.cpp - Modes, random blocks and pictures of layouts ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/AttentionLayout/AttentionLayout.h"
#include <gtest/gtest.h>
#include <set>
#include <sstream>

using namespace heddle;
using namespace heddle::layouts;

/// The error of making a layout for `heads` heads and `seq` tokens.
static Diagnostic errorOf(const LayoutOptions &options, int64_t heads,
                          int64_t seq) {
  try {
    makeLayout(options, heads, seq);
  } catch (const UserError &error) {
    return error.diagnostic;
  }
  return {};
}

/// Options of a mode, each given as a text.
static LayoutOptions
optionsOf(Mode mode,
          const std::vector<std::pair<std::string, std::string>> &texts = {}) {
  LayoutOptions options = defaultsOf(mode);
  for (const auto &[key, text] : texts)
    findOption(key)->set(options, text);
  return options;
}

static std::string toText(const AttentionLayout &layout, int64_t head) {
  std::string text;
  for (int64_t row = 0; row < layout.blocks(); ++row) {
    for (int64_t column = 0; column < layout.blocks(); ++column)
      text += layout.has(head, row, column) ? '#' : '.';
    text += '\n';
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Modes
//===----------------------------------------------------------------------===//

TEST(AttentionLayout, TheUsualFixedLayout) {
  AttentionLayout layout = makeLayout(defaultsOf(Mode::Fixed), 12, 7 * 16);
  EXPECT_EQ(layout.heads(), 1);
  // Blocks 3 and 6 are global; the last window has 3 blocks.
  EXPECT_EQ(toText(layout, 0), "####..#\n"
                               "####..#\n"
                               "####..#\n"
                               "####..#\n"
                               "...####\n"
                               "...####\n"
                               "...####\n");
}

TEST(AttentionLayout, HeadsTakeGlobalPatternsInTurn) {
  AttentionLayout layout =
      makeLayout(optionsOf(Mode::Fixed, {{"num_local_blocks", "2"},
                                         {"num_different_global_patterns", "2"},
                                         {"different_layout_per_head", "true"},
                                         {"attention", "unidirectional"}}),
                 3, 4 * 16);
  EXPECT_EQ(layout.heads(), 3);
  EXPECT_EQ(toText(layout, 0), "#...\n##..\n.##.\n.###\n");
  EXPECT_EQ(toText(layout, 1), "#...\n##..\n#.#.\n#.##\n");
  EXPECT_TRUE(layout.areEqual(0, 2));
  EXPECT_TRUE(layout.isUnidirectional());
}

TEST(AttentionLayout, NegativeIndicesCountFromTheEnd) {
  AttentionLayout layout =
      makeLayout(optionsOf(Mode::Variable, {{"local_window_blocks", "1"},
                                            {"global_block_indices", "-1,-3"}}),
                 1, 4 * 16);
  EXPECT_EQ(toText(layout, 0), "##.#\n.#.#\n.###\n.#.#\n");
  layout = makeLayout(
      optionsOf(Mode::BSLongformer, {{"num_sliding_window_blocks", "1"},
                                     {"global_block_indices", "-2,9"},
                                     {"global_block_end_indices", "7,11"}}),
      1, 4 * 16);
  EXPECT_EQ(toText(layout, 0), "#.##\n.###\n####\n####\n");
}

TEST(AttentionLayout, EveryModeHasDefaults) {
  for (size_t mode = 0; mode < modeWords.size(); ++mode) {
    LayoutOptions options = defaultsOf(Mode(mode));
    AttentionLayout layout = makeLayout(options, 4, 20 * 16);
    EXPECT_EQ(layout.blocks(), 20);
    EXPECT_EQ(layout.blockSize(), 16);
    EXPECT_EQ(layout.isUnidirectional(), Mode(mode) == Mode::Local);
    EXPECT_EQ(layout.density() == 1, Mode(mode) == Mode::Dense);
    for (int64_t row = 0; row < 20; ++row)
      EXPECT_TRUE(layout.has(0, row, row)) << modeWords[mode];
  }
  EXPECT_EQ(defaultsOf(Mode::BigBird).numRandomBlocks, 1);
  EXPECT_EQ(sectionDefaultsOf(Mode::BigBird).numRandomBlocks, 0);
}

TEST(AttentionLayout, IsCutToCausal) {
  // More than one word of bits in a row.
  AttentionLayout layout = makeLayout(defaultsOf(Mode::Dense), 1, 130 * 16);
  EXPECT_FALSE(layout.isUnidirectional());
  EXPECT_EQ(layout.count(0), 130 * 130);
  layout.cutToCausal();
  EXPECT_TRUE(layout.isUnidirectional());
  EXPECT_EQ(layout.count(0), 130 * 131 / 2);
  EXPECT_TRUE(layout.has(0, 129, 64));
  EXPECT_FALSE(layout.has(0, 63, 64));
}

//===----------------------------------------------------------------------===//
// Random blocks
//===----------------------------------------------------------------------===//

TEST(RandomBlocks, AreSoManyInEachRowAndDistinct) {
  for (Mode mode : {Mode::Variable, Mode::BigBird})
    for (const char *count : {"1", "3", "20"}) {
      LayoutOptions options =
          optionsOf(mode, {{"num_random_blocks", count},
                           {"different_layout_per_head", "true"}});
      for (int64_t head = 0; head < 3; ++head)
        for (int64_t row = 0; row < 20; ++row) {
          std::vector<int64_t> drawn = randomBlocks(options, head, row, 20);
          std::set<int64_t> distinct(drawn.begin(), drawn.end());
          EXPECT_EQ(distinct.size(), std::stoul(count));
          EXPECT_GE(*distinct.begin(), 0);
          EXPECT_LT(*distinct.rbegin(), 20);
        }
    }
}

/// The layout has the random blocks, and beside them only those of the mode.
TEST(RandomBlocks, AreAddedToTheOthers) {
  for (Mode mode : {Mode::Variable, Mode::BigBird})
    for (const char *direction : directionWords) {
      LayoutOptions options =
          optionsOf(mode, {{"num_random_blocks", "1"},
                           {"attention", direction},
                           {"different_layout_per_head", "true"}});
      options.seed = 5;
      LayoutOptions without = options;
      without.numRandomBlocks = 0;
      AttentionLayout layout = makeLayout(options, 3, 20 * 16);
      const AttentionLayout base = makeLayout(without, 3, 20 * 16);
      ASSERT_EQ(layout.heads(), 3);
      AttentionLayout expected(3, 20, 16);
      for (int64_t head = 0; head < 3; ++head)
        for (int64_t row = 0; row < 20; ++row) {
          for (int64_t column = 0; column < 20; ++column)
            if (base.has(head, row, column))
              expected.add(head, row, column);
          int64_t drawn = randomBlocks(options, head, row, 20).front();
          expected.add(head, row, drawn);
          if (mode == Mode::BigBird && options.isUnidirectional())
            EXPECT_LE(drawn, row);
        }
      EXPECT_TRUE(layout == expected);
    }
}

TEST(RandomBlocks, DependOnSeedHeadAndRow) {
  LayoutOptions options =
      optionsOf(Mode::BigBird, {{"different_layout_per_head", "true"}});
  AttentionLayout layout = makeLayout(options, 4, 64 * 16);
  EXPECT_TRUE(layout == makeLayout(options, 4, 64 * 16));
  EXPECT_FALSE(layout.areEqual(0, 1));
  // A model with more heads has the same random blocks in the first ones.
  AttentionLayout more = makeLayout(options, 5, 64 * 16);
  EXPECT_EQ(toText(layout, 3), toText(more, 3));
  LayoutOptions other = options;
  other.seed = 1;
  EXPECT_FALSE(layout == makeLayout(other, 4, 64 * 16));
  EXPECT_EQ(makeLayout(defaultsOf(Mode::BigBird), 4, 64 * 16).heads(), 1);
}

/// Each block of the range is drawn about equally often.
TEST(RandomBlocks, AreUniform) {
  LayoutOptions options =
      optionsOf(Mode::BigBird, {{"num_random_blocks", "3"}});
  std::vector<int64_t> times(50);
  const int64_t rows = 4000;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column : randomBlocks(options, 0, row, 50))
      ++times[column];
  const double expected = 3.0 * double(rows) / 50, deviation = 15.1;
  double chiSquared = 0;
  for (int64_t count : times)
    chiSquared += (double(count) - expected) * (double(count) - expected);
  // 49 degrees of freedom: below 100 with a probability of 0.99998.
  EXPECT_LT(chiSquared / expected, 100);
  for (int64_t count : times)
    EXPECT_NEAR(double(count), expected, 5 * deviation);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST(LayoutErrors, NameTheOptionsAsTheyWereGiven) {
  LayoutOptions options = optionsOf(Mode::Fixed, {{"num_global_blocks", "3"}});
  Diagnostic error = errorOf(options, 4, 64);
  EXPECT_EQ(error.code, "H0175");
  EXPECT_EQ(error.message,
            "--num-global-blocks 3 does not divide --num-local-blocks 4");
  options.source.isFile = true;
  options.source.location = {"ds_config.json", 2, 23};
  options.source.places["num_global_blocks"] = {"ds_config.json", 4, 7};
  error = errorOf(options, 4, 64);
  EXPECT_EQ(error.message,
            "\"num_global_blocks\" 3 does not divide \"num_local_blocks\" 4");
  EXPECT_EQ(error.location.line, 4);
}

TEST(LayoutErrors, AreThoseOfDeepSpeed) {
  struct Case {
    Mode mode;
    std::vector<std::pair<std::string, std::string>> options;
    int64_t seq;
    const char *code, *text;
  };
  const std::vector<Case> cases = {
      {Mode::Dense, {}, 100, "H0192", "100 tokens is no multiple"},
      {Mode::Dense, {{"block", "128"}}, 64, "H0192", "no multiple"},
      {Mode::Dense, {}, 16777200, "H0192", "more than a layout has"},
      {Mode::Fixed,
       {{"num_different_global_patterns", "2"}},
       64,
       "H0175",
       "one layout for all heads"},
      {Mode::Fixed,
       {{"num_different_global_patterns", "5"},
        {"different_layout_per_head", "true"}},
       64,
       "H0175",
       "4 / 1 = 4"},
      {Mode::Fixed,
       {{"horizontal_global_attention", "true"},
        {"attention", "unidirectional"}},
       64,
       "H0175",
       "--horizontal-global-attention with --attention unidirectional"},
      {Mode::Variable,
       {{"local_window_blocks", "4,0"}},
       64,
       "H0175",
       "repeats"},
      {Mode::Variable,
       {{"global_block_end_indices", "2,3"}},
       64,
       "H0175",
       "has 1 elements"},
      {Mode::BSLongformer,
       {{"global_block_indices", "2"}, {"global_block_end_indices", "2"}},
       64,
       "H0175",
       "from block 2 to block 2 is empty"},
      {Mode::BSLongformer,
       {{"global_block_indices", "-5"}},
       64,
       "H0192",
       "before the first of 4 blocks"},
      {Mode::BigBird, {{"num_random_blocks", "5"}}, 64, "H0192", "5 is more"},
      {Mode::BigBird, {{"num_global_blocks", "5"}}, 64, "H0192", "5 is more"},
      {Mode::Local, {}, 32, "H0192", "3 is more than the 2 blocks"},
      {Mode::BigBird,
       {{"num_random_blocks", "2"}, {"attention", "unidirectional"}},
       64,
       "H0192",
       "first row has only one block"},
  };
  for (const Case &each : cases) {
    Diagnostic error =
        errorOf(optionsOf(each.mode, each.options), 1 << 14, each.seq);
    EXPECT_EQ(error.code, each.code) << each.text << ": " << error.message;
    EXPECT_NE(error.message.find(each.text), std::string::npos)
        << error.message;
    EXPECT_FALSE(error.help.empty());
  }
}

TEST(LayoutOptions, AreReadAndPrinted) {
  for (const LayoutOption &option : layoutOptions())
    for (size_t mode = 0; mode < modeWords.size(); ++mode) {
      LayoutOptions options = defaultsOf(Mode(mode));
      std::string text = option.toText(options);
      if (text.empty())
        continue;
      EXPECT_TRUE(option.accepts(text)) << option.key << " " << text;
      option.set(options, text);
      EXPECT_EQ(option.toText(options), text);
    }
  const LayoutOption &list = *findOption("global_block_indices");
  for (const char *good : {"0", "0,5,-3", "none", "1048576"})
    EXPECT_TRUE(list.accepts(good)) << good;
  for (const char *bad : {"", ",", "1,", ",1", "1,,2", "x", "1x", "-", "1.5",
                          "1048577", "99999999999999999999"})
    EXPECT_FALSE(list.accepts(bad)) << bad;
  EXPECT_FALSE(findOption("local_window_blocks")->accepts("none"));
  EXPECT_FALSE(findOption("num_random_blocks")->accepts("-1"));
  EXPECT_FALSE(findOption("num_local_blocks")->accepts("0"));
  EXPECT_FALSE(findOption("block")->accepts("48"));
  EXPECT_FALSE(findOption("attention")->accepts("causal"));
}

//===----------------------------------------------------------------------===//
// Pictures
//===----------------------------------------------------------------------===//

TEST(LayoutPicture, HasEachBlockOnce) {
  LayoutOptions options =
      optionsOf(Mode::BigBird, {{"num_random_blocks", "3"},
                                {"different_layout_per_head", "true"}});
  AttentionLayout layout = makeLayout(options, 2, 24 * 16);
  std::string svg = drawLayout(layout, 2, "a title", "b");
  EXPECT_NE(svg.find("<title>a title, b</title>"), std::string::npos);
  EXPECT_NE(svg.find(">head 1</text>"), std::string::npos);
  AttentionLayout drawn(2, 24, 16);
  int64_t head = -1, blocks = 0;
  std::istringstream lines(svg);
  for (std::string line; std::getline(lines, line);) {
    head += line.find("class=\"matrix\"") != std::string::npos;
    int x = 0, y = 0, width = 0, height = 0;
    if (std::sscanf(line.c_str(),
                    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>", &x,
                    &y, &width, &height) != 4)
      continue;
    blocks += width * height;
    for (int row = y; row < y + height; ++row)
      for (int column = x; column < x + width; ++column)
        drawn.add(head, row, column);
  }
  EXPECT_TRUE(drawn == layout);
  EXPECT_EQ(blocks, layout.count(0) + layout.count(1));
}
