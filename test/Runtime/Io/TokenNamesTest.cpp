//===- TokenNamesTest.cpp - Tests of special tokens by name -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/TokenNames.h"
#include "IoTestSupport.h"
#include "heddle/runtime/io/ChatTemplate.h"
#include "heddle/runtime/io/Tokenizer.h"
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::io;

namespace {

class TokenNamesTest : public ::testing::Test {
protected:
  TokenNamesTest() {
    nlohmann::json added = nlohmann::json::array(), vocab;
    int32_t id = 0;
    for (const char *token : {"<unk>", "<s>", "</s>", "<end>", "<begin>"}) {
      vocab[token] = id;
      added.push_back({{"id", id++}, {"content", token}, {"special", true}});
    }
    write(
        "tokenizer.json",
        {{"added_tokens", added},
         {"model",
          {{"type", "WordLevel"}, {"unk_token", "<unk>"}, {"vocab", vocab}}}});
  }
  void write(const char *file, const nlohmann::json &json) {
    directory.write(file, json.dump());
  }
  TokenNames read() { return readTokenNames(directory.path()); }
  TestDirectory directory;
};

} // namespace

TEST_F(TokenNamesTest, AreInSpecialTokensMapAlone) {
  EXPECT_EQ(read(), TokenNames());
  write("special_tokens_map.json",
        {{"bos_token", "<s>"},
         {"eos_token", {{"content", "</s>"}, {"lstrip", false}}},
         {"additional_special_tokens", {"<end>"}}});
  const TokenNames named = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  EXPECT_EQ(read(), named);
  // It wins, as in transformers ...
  write("tokenizer_config.json",
        {{"eos_token", "<end>"}, {"unk_token", "<unk>"}});
  TokenNames more = named;
  more["unk_token"] = "<unk>";
  EXPECT_EQ(read(), more);
  // ... unless the added tokens are listed.
  write("tokenizer_config.json",
        {{"eos_token", "<end>"},
         {"added_tokens_decoder", nlohmann::json::object()}});
  EXPECT_EQ(read(), (TokenNames{{"eos_token", "<end>"}}));
}

TEST_F(TokenNamesTest, FollowFromTheClass) {
  const TokenNames presumed = {
      {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
  for (const char *name : {"LlamaTokenizer", "LlamaTokenizerFast"}) {
    write("tokenizer_config.json", {{"tokenizer_class", name}});
    EXPECT_EQ(read(), presumed) << name;
  }
  // A null says that there is none.
  write("tokenizer_config.json", {{"tokenizer_class", "LlamaTokenizer"},
                                  {"bos_token", nullptr},
                                  {"eos_token", "<end>"}});
  EXPECT_EQ(read(),
            (TokenNames{{"eos_token", "<end>"}, {"unk_token", "<unk>"}}));
  // Tokens that tokenizer.json does not have are not those of this tokenizer.
  write("tokenizer_config.json", {{"tokenizer_class", "GPT2Tokenizer"}});
  EXPECT_EQ(read(), TokenNames());
  write("tokenizer_config.json", nlohmann::json::object());
  EXPECT_EQ(read(), TokenNames());
  write("config.json", {{"tokenizer_class", "LlamaTokenizer"}});
  EXPECT_EQ(read(), presumed);
}

TEST_F(TokenNamesTest, AreKnownToTokenizersAndTemplates) {
  write("special_tokens_map.json",
        {{"bos_token", "<begin>"}, {"eos_token", "<end>"}});
  directory.write("chat_template.jinja", "{{ bos_token }}x{{ eos_token }}");
  EXPECT_EQ(ChatTemplate::find(directory.path())
                ->render(nlohmann::ordered_json::object()),
            "<begin>x<end>");
  for (const std::string &name :
       {directory.path(), directory / "tokenizer.json"}) {
    std::unique_ptr<Tokenizer> tokenizer = openTokenizer(name);
    EXPECT_EQ(tokenizer->namedToken("bos_token"), 4);
    EXPECT_EQ(tokenizer->namedToken("eos_token"), 3);
    EXPECT_EQ(tokenizer->namedToken("pad_token"), std::nullopt);
  }
}
