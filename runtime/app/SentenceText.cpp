//===- SentenceText.cpp - Texts of sentence models ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SentenceText.h"
#include "heddle/runtime/io/File.h"

using namespace heddle;
using namespace heddle::rt;
using io::JsonValue;

bool heddle::rt::isSentenceModel(const std::string &directory) {
  return !directory.empty() && io::pathExists(directory + "/modules.json");
}

static std::optional<JsonValue> parse(const std::string &file) {
  if (!io::pathExists(file))
    return std::nullopt;
  return io::parseJsonFile(file, io::modelJsonCodes);
}

std::optional<JsonValue>
heddle::rt::readSentenceConfig(const std::string &directory) {
  for (const char *kind : {"bert", "roberta", "distilbert", "camembert",
                           "albert", "xlm-roberta", "xlnet"})
    if (std::optional<JsonValue> config =
            parse(directory + "/sentence_" + kind + "_config.json"))
      return config;
  return std::nullopt;
}

/// Reads a number of tokens. Huge values mean "no limit".
static int64_t lengthOf(const JsonValue &value, const char *key) {
  double tokens = value.asNumber();
  if (!(tokens >= 1))
    value.fail("H0375", std::string(key) + " is " + value.describe(),
               "give the number of tokens that a text may have, or leave it "
               "out");
  return int64_t(std::min(tokens, 1e15));
}

/// Returns the value of `key` in one of the objects `names` of `config`: the
/// first object that exists and has such a value. Returns null if there is
/// none.
static const JsonValue *findIn(const JsonValue &config,
                               std::initializer_list<const char *> names,
                               const char *key) {
  for (const char *name : names)
    if (const JsonValue *object = config.findNonNull(name))
      if (const JsonValue *value = object->findNonNull(key))
        return value;
  return nullptr;
}

/// Reads the number of tokens to which texts are truncated. A number in
/// sentence_bert_config.json is used as it is. Otherwise, the number in
/// tokenizer_config.json is used, but at most the number of the model's
/// positions.
static void readLength(const std::optional<JsonValue> &config,
                       const std::optional<JsonValue> &tokenizer,
                       int64_t positions, SentenceText &text) {
  auto take = [&](const JsonValue *value, const char *key) {
    if (!value || text.rules.maxTokens != 0)
      return;
    text.rules.maxTokens = lengthOf(*value, key);
    text.cutBy = std::string(key) + " in " + value->location().file;
  };
  if (config) {
    const JsonValue *processing = config->findNonNull("processing_kwargs");
    if (processing)
      take(findIn(*processing, {"text", "common"}, "max_length"), "max_length");
    take(config->findNonNull("max_seq_length"), "max_seq_length");
    take(findIn(*config, {"processor_kwargs", "tokenizer_args"},
                "model_max_length"),
         "model_max_length");
  }
  if (text.rules.maxTokens != 0)
    return;
  if (tokenizer)
    take(tokenizer->findNonNull("model_max_length"), "model_max_length");
  if (text.rules.maxTokens == 0 || text.rules.maxTokens > positions) {
    text.rules.maxTokens = positions;
    text.cutBy = "the model's positions";
  }
}

/// Reads the prompts from `file`, a config_sentence_transformers.json. A JSON
/// null means an empty prompt.
static void readPrompts(const std::string &file, const std::string &asked,
                        TextRules &rules) {
  std::optional<JsonValue> config = parse(file);
  if (!config)
    return;
  if (const JsonValue *prompts = config->findNonNull("prompts"))
    for (const io::JsonMember &prompt : prompts->members())
      rules.prompts[prompt.key] =
          prompt.value.isNull() ? "" : prompt.value.asString();
  const JsonValue *named = config->findNonNull("default_prompt_name");
  if (!named || !asked.empty())
    return;
  auto found = rules.prompts.find(named->asString());
  if (found == rules.prompts.end())
    named->fail("H0375",
                "default_prompt_name is \"" + named->asString() +
                    "\", and prompts has none of this name",
                "name one of them, or give null");
  rules.defaultPrompt = found->second;
}

SentenceText heddle::rt::readSentenceText(const std::string &directory,
                                          int64_t positions,
                                          const std::string &prompt) {
  SentenceText text;
  if (isSentenceModel(directory)) {
    std::optional<JsonValue> config = readSentenceConfig(directory),
                             tokenizer =
                                 parse(directory + "/tokenizer_config.json");
    readLength(config, tokenizer, positions, text);
    text.lowersCase = config && config->boolOr("do_lower_case", false);
    text.rules.cutsFront =
        tokenizer && tokenizer->stringOr("truncation_side", "right") == "left";
    readPrompts(directory + "/config_sentence_transformers.json", prompt,
                text.rules);
  }
  if (prompt.empty())
    return text;
  const TextPreparer preparer(nullptr, text.rules);
  const std::string *found = preparer.findPrompt(prompt);
  if (!found) {
    std::string known = preparer.promptNames();
    fail("H0168", "--prompt-name: the model has no prompt \"" + prompt + "\"",
         known.empty()
             ? "leave it out, and write the prompt before each text: the "
               "model's config_sentence_transformers.json names none"
             : "name one of " + known);
  }
  text.rules.defaultPrompt = *found;
  return text;
}
