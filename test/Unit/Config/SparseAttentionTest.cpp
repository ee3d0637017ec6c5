//===- SparseAttentionTest.cpp - The section sparse_attention -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConfigFixture.h"

using namespace heddle;
using namespace heddle::config;
using layouts::LayoutOptions;

namespace {

class SparseAttentionTest : public ConfigTest {
protected:
  /// The settings of a file with this section. Errors are in `problems`.
  ResolvedSettings merge(const std::string &section) {
    std::ofstream(path) << "{\"train_batch_size\": 2,\n"
                           " \"sparse_attention\": "
                        << section << "}";
    return mergeSettings({}, readDsConfig(path), {});
  }
  LayoutOptions optionsOf(const std::string &section) {
    ResolvedSettings settings = merge(section);
    EXPECT_TRUE(settings.sparseAttention) << section;
    return settings.sparseAttention.value_or(LayoutOptions());
  }
  Diagnostic sectionError(const std::string &section) {
    ResolvedSettings settings = merge(section);
    EXPECT_EQ(settings.problems.size(), 1u) << section;
    return settings.problems.empty() ? Diagnostic() : settings.problems[0];
  }
};

} // namespace

TEST_F(SparseAttentionTest, EveryOptionIsRead) {
  LayoutOptions options = optionsOf(
      R"({"mode": "fixed", "block": 32, "different_layout_per_head": true,
          "num_local_blocks": 8, "num_global_blocks": 2,
          "attention": "bidirectional", "horizontal_global_attention": true,
          "num_different_global_patterns": 4})");
  EXPECT_EQ(options.mode, layouts::Mode::Fixed);
  EXPECT_EQ(options.block, 32);
  EXPECT_TRUE(options.differentLayoutPerHead);
  EXPECT_EQ(options.numLocalBlocks, 8);
  EXPECT_EQ(options.numGlobalBlocks, 2);
  EXPECT_TRUE(options.horizontalGlobalAttention);
  EXPECT_EQ(options.numDifferentGlobalPatterns, 4);

  options = optionsOf(
      R"({"mode": "variable", "num_random_blocks": 2,
          "local_window_blocks": [2, 4], "global_block_indices": [0, 7],
          "global_block_end_indices": [1, 9], "attention": "unidirectional"})");
  EXPECT_EQ(options.mode, layouts::Mode::Variable);
  EXPECT_EQ(options.numRandomBlocks, 2);
  EXPECT_EQ(options.localWindowBlocks, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(options.globalBlockIndices, (std::vector<int64_t>{0, 7}));
  EXPECT_EQ(options.globalBlockEndIndices, (std::vector<int64_t>{1, 9}));
  EXPECT_TRUE(options.isUnidirectional());
}

/// DeepSpeed's defaults of a configuration file: `fixed`, and no random block.
TEST_F(SparseAttentionTest, DefaultsAreThoseOfDeepSpeed) {
  EXPECT_EQ(optionsOf("{}").mode, layouts::Mode::Fixed);
  EXPECT_EQ(optionsOf("{}").block, 16);
  EXPECT_EQ(optionsOf(R"({"mode": "bigbird"})").numRandomBlocks, 0);
  EXPECT_TRUE(optionsOf(R"({"mode": "local"})").isUnidirectional());
  EXPECT_FALSE(optionsOf(R"({"mode": "variable",
                             "global_block_end_indices": null})")
                   .globalBlockEndIndices);
  EXPECT_FALSE(mergeSettings({}, {}, {}).sparseAttention);
}

TEST_F(SparseAttentionTest, OptionsOfAnotherModeHaveNoMeaning) {
  ResolvedSettings settings =
      merge(R"({"mode": "bslongformer", "num_local_blocks": 3,
                "num_global_blocks": 2})");
  ASSERT_TRUE(settings.sparseAttention);
  EXPECT_EQ(settings.sparseAttention->numLocalBlocks, 4);
}

TEST_F(SparseAttentionTest, OffIsAccepted) {
  for (const char *section : {"null", "false"}) {
    ResolvedSettings settings = merge(section);
    EXPECT_TRUE(settings.problems.empty()) << section;
    EXPECT_EQ(verdictOn("sparse_attention", settings), "no meaning here");
    EXPECT_FALSE(settings.sparseAttention);
  }
}

TEST_F(SparseAttentionTest, WrongOptionsAreRefusedAtTheirPlace) {
  struct Case {
    const char *section, *code, *text;
    const char *at; ///< Where in the section the error points.
  };
  for (const Case &each :
       {Case{R"({"mode": "sparse"})", "H0108", "\"sparse\"", "\"sparse"},
        Case{R"({"mode": "bigbird", "block": 24})", "H0110", "24", "24"},
        Case{R"({"block": 16, "num_local_blocks": 0})", "H0110", "0", "0}"},
        Case{R"({"mode": "bigbird", "num_random_blocks": -1})", "H0110", "-1",
             "-1"},
        Case{R"({"attention": "causal"})", "H0110", "causal", "\"causal"},
        Case{R"({"mode": "variable", "local_window_blocks": [4, -1]})", "H0110",
             "local_window_blocks", "[4"},
        Case{R"({"mode": "variable", "local_window_blocks": ["x"]})", "H0105",
             "local_window_blocks", "\"x"},
        Case{R"({"num_different_global_patterns": 4})", "H0175",
             "one layout for all heads", "4}"},
        Case{R"({"mode": "variable", "global_block_end_indices": []})", "H0175",
             "\"global_block_end_indices\" 0", "[]"},
        Case{"true", "H0105", "sparse_attention", "true"},
        Case{R"({"mode": "fixed", "blok": 16})", "H0107", "blok", "\"blok"}}) {
    Diagnostic error = sectionError(each.section);
    EXPECT_EQ(error.code, each.code) << each.section << ": " << error.message;
    EXPECT_NE(error.message.find(each.text), std::string::npos)
        << error.message;
    EXPECT_FALSE(error.help.empty() && error.code != "H0105") << error.message;
    EXPECT_EQ(error.location.line, 2);
    // The section begins at column 22.
    EXPECT_EQ(error.location.column,
              22 + int(std::string(each.section).find(each.at)))
        << each.section;
  }
}
