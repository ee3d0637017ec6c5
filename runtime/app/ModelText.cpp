//===- ModelText.cpp - Tokenizer of a model -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelText.h"
#include "heddle/runtime/io/Checkpoint.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/Json.h"

#include <filesystem>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::rt;

void heddle::rt::requireCompiledWeights(const plan::Plan &plan) {
  const plan::Weights &weights = plan.weights;
  if (!weights.random && !io::pathExists(weights.directory))
    fail("H0330",
         "the model that this binary was compiled with is gone: " +
             weights.directory + " does not exist",
         "name the directory that it is in now: --weights DIR");
}

std::string heddle::rt::modelDirectory(const plan::Plan &plan,
                                       const JobOptions &options) {
  if (options.weights.empty())
    requireCompiledWeights(plan);
  return io::resolveModel(options.weights.empty() ? plan.weights.directory
                                                  : options.weights);
}

std::string heddle::rt::readDirectory(const plan::Plan &plan,
                                      const JobOptions &options) {
  bool isMade = plan.weights.random && options.weights.empty();
  return isMade ? "" : modelDirectory(plan, options);
}

/// Returns a token of tokenizer.json with an id >= `vocab`, or null.
static const io::JsonValue *unknownToken(const io::JsonValue &root,
                                         int64_t vocab, std::string &name,
                                         int64_t &id) {
  if (const io::JsonValue *added = root.findNonNull("added_tokens"))
    for (const io::JsonValue &token : added->elements())
      if ((id = token.at("id").asInteger()) >= vocab) {
        name = token.at("content").asString();
        return &token.at("id");
      }
  const io::JsonValue &words = root.at("model").at("vocab");
  if (words.isArray()) {
    id = vocab;
    const io::JsonValue &word = words.elements().at(vocab);
    name = word.elements().at(0).asString();
    return &word;
  }
  for (const io::JsonMember &word : words.members())
    if ((id = word.value.asInteger()) >= vocab) {
      name = word.key;
      return &word.value;
    }
  return nullptr;
}

/// Throws H0370 if the tokenizer has more tokens than the model's vocabulary:
/// then it belongs to other weights. It may have fewer, since vocabularies are
/// padded.
static void requireKnownTokens(const io::Tokenizer &tokenizer,
                               const std::string &directory, int64_t vocab) {
  if (tokenizer.vocabSize() <= vocab)
    return;
  io::JsonValue root =
      io::parseJsonFile(directory + "/tokenizer.json", io::modelJsonCodes);
  std::string name;
  int64_t id = 0;
  const io::JsonValue *place = unknownToken(root, vocab, name, id);
  fail("H0370",
       "token " + std::to_string(id) + ", \"" + name +
           "\", is not in the model's vocabulary of " + std::to_string(vocab) +
           ": the tokenizer and the weights are not of one model",
       "put the tokenizer.json of these weights beside them, or take weights "
       "with a vocabulary of at least " +
           std::to_string(tokenizer.vocabSize()),
       place ? place->location() : root.location());
}

std::unique_ptr<io::Tokenizer>
heddle::rt::findTokenizer(const plan::Plan &plan, const JobOptions &options,
                          bool lowersCase) {
  std::string directory = modelDirectory(plan, options);
  if (!directory.empty() &&
      std::filesystem::exists(directory + "/tokenizer.json")) {
    std::unique_ptr<io::Tokenizer> found =
        io::openTokenizer(directory, lowersCase);
    requireKnownTokens(*found, directory, plan.vocabSize);
    return found;
  }
  if (plan.vocabSize >= 256 && plan.vocabSize <= 512)
    return io::openTokenizer("bytes");
  return nullptr;
}

std::unique_ptr<io::Tokenizer>
heddle::rt::requireTokenizer(const plan::Plan &plan, const JobOptions &options,
                             const std::string &help, bool lowersCase) {
  if (std::unique_ptr<io::Tokenizer> found =
          findTokenizer(plan, options, lowersCase))
    return found;
  fail("H0195",
       "there is no tokenizer.json beside the weights, and a vocabulary of " +
           std::to_string(plan.vocabSize) + " is not one of bytes",
       help);
}

/// Adds the end tokens of a JSON file to `ends`: `eos_token_id` is one token id
/// or a list of them.
static void addEnds(const nlohmann::json &config, std::vector<int64_t> &ends) {
  auto found = config.find("eos_token_id");
  if (found == config.end())
    return;
  for (const nlohmann::json &id :
       found->is_array() ? *found : nlohmann::json::array({*found}))
    if (id.is_number_integer())
      ends.push_back(id.get<int64_t>());
}

namespace {

/// The contents of generation_config.json.
class GenerationConfig {
public:
  explicit GenerationConfig(const std::string &file)
      : root(io::parseJsonFile(file, io::modelJsonCodes)) {}
  void read(TextDefaults &defaults, int64_t vocab) const;

private:
  void requireKnown(const char *key, int64_t vocab) const;
  double number(const char *key, double least, double most,
                double fallback) const;
  io::JsonValue root;
};

} // namespace

void GenerationConfig::requireKnown(const char *key, int64_t vocab) const {
  const io::JsonValue *named = root.findNonNull(key);
  if (!named)
    return;
  std::vector<io::JsonValue> one = {*named};
  for (const io::JsonValue &id : named->isArray() ? named->elements() : one)
    if (id.asInteger() >= vocab)
      id.fail(
          "H0370",
          std::string(key) + ": token " + std::to_string(id.asInteger()) +
              " is not in the model's vocabulary of " + std::to_string(vocab),
          "name a token of this model, or leave " + std::string(key) + " out");
}

double GenerationConfig::number(const char *key, double least, double most,
                                double fallback) const {
  const io::JsonValue *value = root.findNonNull(key);
  if (!value)
    return fallback;
  double number = value->asNumber();
  if (!(number >= least && number <= most))
    value->fail(
        "H0373",
        std::string(key) + " must be from " + nlohmann::json(least).dump() +
            " to " + nlohmann::json(most).dump() + ", not " + value->describe(),
        "write " + nlohmann::json(fallback).dump() + ", or leave it out");
  return number;
}

void GenerationConfig::read(TextDefaults &defaults, int64_t vocab) const {
  for (const char *key : {"eos_token_id", "bos_token_id", "pad_token_id"})
    requireKnown(key, vocab);
  addEnds(root.toJson(), defaults.ends);
  SamplingOptions &sampling = defaults.sampling;
  sampling.repetitionPenalty = number("repetition_penalty", 0.001, 100, 1);
  defaults.samples = root.boolOr("do_sample", false);
  if (!defaults.samples)
    return;
  sampling.temperature = number("temperature", 0, 100, 1);
  sampling.topK = int64_t(number("top_k", 0, 1e15, 0));
  sampling.topP = number("top_p", 0, 1, 1);
  sampling.minP = number("min_p", 0, 1, 0);
}

TextDefaults heddle::rt::textDefaults(const plan::Plan &plan,
                                      const JobOptions &options,
                                      const io::Tokenizer *tokenizer) {
  TextDefaults defaults;
  addEnds(plan.modelConfig, defaults.ends);
  if (tokenizer)
    if (std::optional<int32_t> end = tokenizer->namedToken("eos_token"))
      defaults.ends.push_back(*end);
  std::string file = modelDirectory(plan, options) + "/generation_config.json";
  if (io::pathExists(file))
    GenerationConfig(file).read(defaults, plan.vocabSize);
  return defaults;
}
