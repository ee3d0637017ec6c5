//===- SpecialTokens.cpp - Special tokens of a model ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the special tokens for masked language modelling in the files of a
// model: the mask token, and the tokens that are never masked.
//
//===----------------------------------------------------------------------===//

#include "Family.h"
#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/TokenNames.h"
#include <map>
#include <set>
#include <sstream>

using namespace heddle;
using namespace heddle::config;

namespace {

class Finder {
public:
  explicit Finder(std::string directory) : directory(std::move(directory)) {}

  SpecialTokens find(const io::JsonValue &config, int64_t vocab);

private:
  std::optional<io::JsonValue> parse(const std::string &name) const;
  void readNames();
  void readTokenizer();
  void readVocabulary();

  std::string directory;
  /// The texts of special tokens. These are the texts that Hugging Face's BERT
  /// classes use if the tokenizer's files name no others.
  std::map<std::string, std::string> names = {{"mask_token", "[MASK]"},
                                              {"cls_token", "[CLS]"},
                                              {"sep_token", "[SEP]"},
                                              {"pad_token", "[PAD]"},
                                              {"unk_token", "[UNK]"}};
  std::map<std::string, int64_t> ids; ///< Ids of special tokens by text.
};

} // namespace

std::optional<io::JsonValue> Finder::parse(const std::string &name) const {
  std::string path = directory + "/" + name;
  if (directory.empty() || !io::pathExists(path))
    return std::nullopt;
  return io::parseJsonFile(path, io::modelJsonCodes);
}

void Finder::readNames() {
  io::TokenNames found = io::readTokenNames(directory);
  for (auto &[name, text] : names)
    if (auto named = found.find(name); named != found.end())
      text = named->second;
}

void Finder::readTokenizer() {
  std::optional<io::JsonValue> root = parse("tokenizer.json");
  const io::JsonValue *tokens =
      root ? root->findNonNull("added_tokens") : nullptr;
  if (!tokens)
    return;
  for (const io::JsonValue &token : tokens->elements())
    if (token.boolOr("special", false))
      ids[token.at("content").asString()] = token.at("id").asInteger();
}

/// Reads vocab.txt. Each of its lines is a token, whose id is the index of the
/// line, from 0 on.
void Finder::readVocabulary() {
  std::string path = directory + "/vocab.txt";
  if (directory.empty() || !ids.empty() || !io::pathExists(path))
    return;
  std::set<std::string> wanted;
  for (const auto &[name, text] : names)
    wanted.insert(text);
  std::istringstream lines(io::readText(path, "H0301"));
  std::string word;
  for (int64_t id = 0; std::getline(lines, word); ++id) {
    if (!word.empty() && word.back() == '\r')
      word.pop_back();
    if (wanted.count(word))
      ids.emplace(word, id);
  }
}

/// Reads the id of the mask token from the value of `mask_token_id` in
/// config.json.
static int64_t maskOf(const io::JsonValue &value, int64_t vocab) {
  int64_t id = value.asInteger();
  if (id < 0 || id >= vocab)
    value.fail("H0392", "\"mask_token_id\" is " + std::to_string(id),
               "give null, or a number from 0 to " + std::to_string(vocab - 1));
  return id;
}

SpecialTokens Finder::find(const io::JsonValue &config, int64_t vocab) {
  readNames();
  readTokenizer();
  readVocabulary();
  SpecialTokens tokens;
  std::set<int64_t> all;
  for (const auto &[text, id] : ids)
    all.insert(id);
  if (auto mask = ids.find(names["mask_token"]); mask != ids.end())
    tokens.mask = mask->second;
  for (const char *kind : {"mask", "cls", "sep", "pad", "unk", "bos", "eos"}) {
    const io::JsonValue *id =
        config.findNonNull(std::string(kind) + "_token_id");
    if (!id)
      continue;
    if (kind == std::string("mask"))
      tokens.mask = maskOf(*id, vocab);
    // The value of `eos_token_id` may be a list, since a model may have several
    // end-of-text tokens.
    if (!id->isArray())
      all.insert(id->asInteger());
    else
      for (const io::JsonValue &one : id->elements())
        all.insert(one.asInteger());
  }
  // Ids of the tokenizer for which the model has no embedding are dropped.
  for (int64_t id : all)
    if (id >= 0 && id < vocab)
      tokens.all.push_back(id);
  if (tokens.mask && *tokens.mask >= vocab)
    tokens.mask.reset();
  return tokens;
}

void config::findSpecialTokens(const io::JsonValue &config,
                               const std::string &directory, ModelSpec &spec) {
  if (spec.objective == plan::Objective::MaskedToken)
    spec.tokens = Finder(directory).find(config, spec.vocabSize);
}
