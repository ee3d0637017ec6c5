//===- ModelConfigTest.cpp - config.json of published models --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/ModelSpec.h"
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::config;
using nlohmann::json;

namespace {

/// What reading a config.json comes to.
struct Outcome {
  Diagnostic error; ///< Its code is "" when there is none.
  ModelSpec spec;
  /// The only warning, or "".
  std::string warning() const {
    EXPECT_LE(spec.warnings.size(), 1u);
    return spec.warnings.empty() ? "" : spec.warnings.front();
  }
};

class ModelConfig : public ::testing::Test {
protected:
  ModelConfig() { request.path = ::testing::TempDir() + "config.json"; }
  ~ModelConfig() override { std::remove(request.path.c_str()); }

  Outcome read(const json &config, bool isStrict = false) {
    std::ofstream(request.path) << config.dump(1);
    request.random = true;
    request.isStrict = isStrict;
    Outcome outcome;
    try {
      outcome.spec = readModelSpec(request);
    } catch (const UserError &error) {
      outcome.error = error.diagnostic;
    }
    return outcome;
  }
  ModelRequest request;
};

json tiny(const char *family = "llama") {
  return {{"model_type", family},         {"hidden_size", 32},
          {"intermediate_size", 44},      {"num_attention_heads", 4},
          {"num_hidden_layers", 2},       {"vocab_size", 64},
          {"max_position_embeddings", 64}};
}

bool names(const std::string &text, const std::string &word) {
  return text.find(word) != std::string::npos;
}

} // namespace

/// Each line is a config.json as it is published: it compiles, or the error is
/// of the family or of a value that the family refuses. `warns` are its keys
/// that are not known.
TEST_F(ModelConfig, PublishedOnes) {
  std::ifstream lines(HEDDLE_TEST_INPUTS "/published-configs.jsonl");
  int models = 0;
  for (std::string line; std::getline(lines, line); ++models) {
    json entry = json::parse(line);
    SCOPED_TRACE(entry["name"].get<std::string>());
    Outcome outcome = read(entry["config"]);
    EXPECT_EQ(outcome.error.code, entry["code"]) << outcome.error.message;
    if (!outcome.error.code.empty())
      continue;
    std::string warning = outcome.warning();
    EXPECT_EQ(warning.empty(), entry["warns"].empty()) << warning;
    std::string all;
    for (const json &key : entry["warns"])
      all += (all.empty() ? "" : ", ") + key.get<std::string>();
    EXPECT_TRUE(names(warning, all)) << warning;
    EXPECT_EQ(read(entry["config"], /*isStrict=*/true).error.code,
              all.empty() ? "" : "H0391");
  }
  EXPECT_GE(models, 60);
}

TEST_F(ModelConfig, UnknownKeysAreOneLineOrOneError) {
  json config = tiny();
  config["first_key"] = 1;
  config["second_key"] = {{"a", 1}};
  Outcome outcome = read(config);
  EXPECT_EQ(outcome.error.code, "") << outcome.error.message;
  EXPECT_TRUE(names(outcome.warning(), "first_key, second_key"))
      << outcome.warning();
  EXPECT_EQ(outcome.warning().find('\n'), std::string::npos);
  Outcome strict = read(config, /*isStrict=*/true);
  EXPECT_EQ(strict.error.code, "H0391");
  EXPECT_TRUE(names(strict.error.message, "first_key, second_key"));
  EXPECT_EQ(strict.error.location.line, 2);
}

/// A misspelt key whose right one is missing would leave a size at its default.
TEST_F(ModelConfig, NearMissOfMissingKey) {
  for (auto [missing, written] :
       {std::pair("num_hidden_layers", "num_hidden_layer"),
        {"hidden_size", "hiddenSize"},
        {"num_attention_heads", "num_attention_haeds"},
        {"vocab_size", "vocab_sizes"}}) {
    json config = tiny();
    config[written] = config[missing];
    Outcome both = read(config);
    EXPECT_EQ(both.error.code, "") << both.error.message;
    EXPECT_TRUE(names(both.warning(), written)) << both.warning();
    config.erase(missing);
    Outcome outcome = read(config);
    EXPECT_EQ(outcome.error.code, "H0391");
    EXPECT_TRUE(names(outcome.error.help, missing)) << outcome.error.help;
    EXPECT_GT(outcome.error.location.line, 0);
  }
}

TEST_F(ModelConfig, KeysThatChangeNumbers) {
  for (auto [key, neutral, other] :
       {std::tuple<const char *, json, json>("partial_rotary_factor", 1.0, 0.5),
        {"rope_interleaved", false, true},
        {"is_causal", true, false},
        {"embedding_multiplier", 1, 12.0},
        {"final_logit_softcapping", nullptr, 30.0},
        {"clip_qkv", nullptr, 8.0}}) {
    json config = tiny();
    config[key] = neutral;
    Outcome fine = read(config, /*isStrict=*/true);
    EXPECT_EQ(fine.error.code, "") << fine.error.message;
    config[key] = other;
    Outcome outcome = read(config);
    EXPECT_EQ(outcome.error.code, "H0391") << key;
    EXPECT_TRUE(names(outcome.error.message, key)) << outcome.error.message;
  }
}

/// transformers reads GPT-2's and GPT-Neo's sizes under the usual names too.
TEST_F(ModelConfig, OtherNamesOfKeys) {
  json gpt2 = {{"model_type", "gpt2"}, {"num_hidden_layers", 3},
               {"hidden_size", 48},    {"num_attention_heads", 4},
               {"vocab_size", 64},     {"max_position_embeddings", 40}};
  Outcome outcome = read(gpt2, /*isStrict=*/true);
  EXPECT_EQ(outcome.error.code, "") << outcome.error.message;
  EXPECT_EQ(outcome.spec.layers, 3);
  EXPECT_EQ(outcome.spec.width, 48);
  EXPECT_EQ(outcome.spec.maxPositions, 40);
  EXPECT_EQ(outcome.spec.positionsKey, "max_position_embeddings");
  gpt2["n_layer"] = 3;
  EXPECT_EQ(read(gpt2).error.code, "");
  gpt2["n_layer"] = 2;
  EXPECT_EQ(read(gpt2).error.code, "H0391");
  json neo = {{"model_type", "gpt_neo"},
              {"num_hidden_layers", 4},
              {"num_attention_heads", 4},
              {"hidden_size", 32}};
  EXPECT_EQ(read(neo).spec.layers, 4);
}

TEST_F(ModelConfig, KeysOfRotaryScaling) {
  json config = tiny();
  config["rope_scaling"] = {
      {"type", "linear"}, {"factor", 4.0}, {"low_freq_factor", 1.0}};
  Outcome outcome = read(config);
  EXPECT_EQ(outcome.error.code, "") << outcome.error.message;
  EXPECT_TRUE(names(outcome.warning(), "rope_scaling.low_freq_factor"));
  EXPECT_EQ(read(config, /*isStrict=*/true).error.code, "H0391");
  config["rope_scaling"] = {
      {"type", "yarn"}, {"factor", 4.0}, {"beta_fats", 16}};
  EXPECT_EQ(read(config).error.code, "H0391");
  config["rope_scaling"] = {
      {"type", "linear"}, {"factor", 4.0}, {"partial_rotary_factor", 0.5}};
  EXPECT_EQ(read(config).error.code, "H0391");
}

/// Some files say beside the scaling how long the model was trained for first.
TEST_F(ModelConfig, OriginalPositionsBesideTheScaling) {
  json config = tiny();
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0}};
  EXPECT_EQ(read(config).error.code, "H0306");
  config["original_max_position_embeddings"] = 32;
  Outcome outcome = read(config, /*isStrict=*/true);
  EXPECT_EQ(outcome.error.code, "") << outcome.error.message;
  config["rope_scaling"]["original_max_position_embeddings"] = 32;
  EXPECT_EQ(read(config).error.code, "");
  config["rope_scaling"]["original_max_position_embeddings"] = 16;
  EXPECT_EQ(read(config).error.code, "H0391");
}

TEST_F(ModelConfig, TypesOfLayers) {
  json config = tiny("mistral");
  config["num_key_value_heads"] = 4;
  config["sliding_window"] = 16;
  config["layer_types"] = {"sliding_attention", "sliding_attention"};
  EXPECT_EQ(read(config, /*isStrict=*/true).error.code, "");
  config["layer_types"] = {"sliding_attention", "full_attention"};
  EXPECT_EQ(read(config).error.code, "H0391");
}
