//===- TokenNames.cpp - Special tokens by their roles ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads names of special tokens as transformers does, with the defaults of its
// tokenizer classes.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/TokenNames.h"
#include "heddle/runtime/io/File.h"

#include <algorithm>
#include <set>

using namespace heddle;
using namespace heddle::io;

static constexpr const char *tokenNames[] = {
    "bos_token", "eos_token", "unk_token", "sep_token",
    "pad_token", "cls_token", "mask_token"};

namespace {

/// Default special tokens of a tokenizer class.
struct ClassTokens {
  const char *tokenizerClass;
  /// The token's text for each role in `tokenNames`; null: no token.
  const char *texts[std::size(tokenNames)];
};

} // namespace

/// The defaults of transformers 5.
static constexpr ClassTokens classes[] = {
    {"LlamaTokenizer", {"<s>", "</s>", "<unk>"}},
    {"CodeLlamaTokenizer", {"<s>", "</s>", "<unk>"}},
    {"GPT2Tokenizer", {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}},
    {"CodeGenTokenizer", {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}},
    {"GPTNeoXTokenizer",
     {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", nullptr,
      "<|padding|>"}},
    {"GemmaTokenizer",
     {"<bos>", "<eos>", "<unk>", nullptr, "<pad>", nullptr, "<mask>"}},
    {"Qwen2Tokenizer",
     {nullptr, "<|endoftext|>", "<|endoftext|>", nullptr, "<|endoftext|>"}},
    {"CohereTokenizer",
     {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<SEP>", "<PAD>",
      "<CLS>", "<MASK_TOKEN>"}},
    {"XGLMTokenizer", {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>"}},
    {"T5Tokenizer", {nullptr, "</s>", "<unk>", nullptr, "<pad>"}},
    {"BertTokenizer",
     {nullptr, nullptr, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
    {"DistilBertTokenizer",
     {nullptr, nullptr, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
    {"ElectraTokenizer",
     {nullptr, nullptr, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
    {"DebertaV2Tokenizer",
     {"[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
    {"RobertaTokenizer",
     {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
    {"XLMRobertaTokenizer",
     {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
    {"CamembertTokenizer",
     {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
    {"MPNetTokenizer",
     {"<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"}}};

/// The tokenizer class of a type of model, if no file names it. Llama and
/// Mistral are missing, since their tokenizers differ too much.
static constexpr std::pair<const char *, const char *> classOfModel[] = {
    {"bert", "BertTokenizer"},        {"gemma2", "GemmaTokenizer"},
    {"gpt2", "GPT2Tokenizer"},        {"gpt_neo", "GPT2Tokenizer"},
    {"gpt_neox", "GPTNeoXTokenizer"}, {"opt", "GPT2Tokenizer"},
    {"qwen2", "Qwen2Tokenizer"},      {"qwen3", "Qwen2Tokenizer"}};

namespace {

class NameReader {
public:
  explicit NameReader(std::string directory)
      : directory(std::move(directory)) {}
  TokenNames read(const JsonValue *tokenizer);

private:
  std::optional<JsonValue> parse(const char *file) const;
  void take(const JsonValue &root);
  std::string className(const std::optional<JsonValue> &config) const;
  void presume(const ClassTokens &presumed, const JsonValue *tokenizer);

  std::string directory;
  TokenNames names;
  /// The roles, such as `eos_token`, that the files mention. They include roles
  /// that a file sets to null, which get no default.
  std::set<std::string> mentioned;
};

} // namespace

std::optional<JsonValue> NameReader::parse(const char *file) const {
  std::string path = directory + "/" + file;
  if (!pathExists(path))
    return std::nullopt;
  return parseJsonFile(path, modelJsonCodes);
}

/// A token is a string, or an object with `content`.
void NameReader::take(const JsonValue &root) {
  for (const char *name : tokenNames) {
    const JsonValue *token = root.find(name);
    if (!token)
      continue;
    mentioned.insert(name);
    names.erase(name);
    if (token->isObject())
      token = token->findNonNull("content");
    if (token && token->isString())
      names[name] = token->asString();
  }
}

std::string
NameReader::className(const std::optional<JsonValue> &config) const {
  std::string name;
  if (config)
    name = config->stringOr("tokenizer_class", "");
  std::optional<JsonValue> model;
  if (name.empty() && (model = parse("config.json"))) {
    name = model->stringOr("tokenizer_class", "");
    const std::string type = model->stringOr("model_type", "");
    for (auto [family, tokenizerClass] : classOfModel)
      if (name.empty() && type == family)
        name = tokenizerClass;
  }
  constexpr const char fast[] = "Fast";
  size_t end = name.size() - std::min(name.size(), std::size(fast) - 1);
  if (name.compare(end, std::string::npos, fast) == 0)
    name.resize(end);
  return name;
}

void NameReader::presume(const ClassTokens &presumed,
                         const JsonValue *tokenizer) {
  std::vector<size_t> open;
  for (size_t i = 0; i < std::size(tokenNames); ++i)
    if (presumed.texts[i] && mentioned.count(tokenNames[i]) == 0)
      open.push_back(i);
  if (open.empty())
    return;
  std::optional<JsonValue> own;
  if (!tokenizer && (own = parse("tokenizer.json")))
    tokenizer = &*own;
  const JsonValue *added =
      tokenizer ? tokenizer->findNonNull("added_tokens") : nullptr;
  if (!added)
    return;
  std::set<std::string> known;
  for (const JsonValue &token : added->elements())
    known.insert(token.at("content").asString());
  for (size_t i : open)
    if (known.count(presumed.texts[i]) != 0)
      names[tokenNames[i]] = presumed.texts[i];
}

TokenNames NameReader::read(const JsonValue *tokenizer) {
  std::optional<JsonValue> config = parse("tokenizer_config.json");
  if (config)
    take(*config);
  std::optional<JsonValue> map;
  if ((!config || !config->find("added_tokens_decoder")) &&
      (map = parse("special_tokens_map.json")))
    take(*map);
  const std::string tokenizerClass = className(config);
  for (const ClassTokens &presumed : classes)
    if (tokenizerClass == presumed.tokenizerClass)
      presume(presumed, tokenizer);
  return names;
}

TokenNames io::readTokenNames(const std::string &directory,
                              const JsonValue *tokenizer) {
  return directory.empty() ? TokenNames()
                           : NameReader(directory).read(tokenizer);
}
