//===- Tokenizer.cpp - Byte and byte-level BPE tokenizers -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Tokenizer.h"
#include "BpeModel.h"
#include "SplitPattern.h"
#include "heddle/runtime/io/Checkpoint.h"
#include <algorithm>

using namespace heddle;
using namespace heddle::io;

namespace {

/// Every byte is its own token.
class ByteTokenizer : public Tokenizer {
public:
  int64_t vocabSize() const override { return 256; }
  std::vector<int32_t> encode(const std::string &text) const override {
    std::vector<int32_t> ids(text.size());
    std::transform(text.begin(), text.end(), ids.begin(),
                   [](char c) { return static_cast<uint8_t>(c); });
    return ids;
  }
  std::string decode(const std::vector<int32_t> &ids) const override {
    std::string text;
    for (int32_t id : ids)
      if (id >= 0 && id < 256)
        text += static_cast<char>(id);
    return text;
  }
};

/// A token that is found in the text before anything is split.
struct AddedToken {
  std::string content;
  int32_t id;
  bool stripLeft, stripRight;
};

/// The tokenizer.json of Hugging Face, as far as it is byte-level BPE.
class BpeTokenizer : public Tokenizer {
public:
  explicit BpeTokenizer(const JsonValue &root) : model(root.at("model")) {
    readNormalizer(root);
    readPreTokenizer(root.at("pre_tokenizer"));
    if (!sawByteLevel)
      root.at("pre_tokenizer")
          .fail("H0351", "only byte-level tokenizers are supported",
                "use `bytes`, or a tokenizer like GPT-2's");
    readAddedTokens(root);
  }
  int64_t vocabSize() const override { return size; }
  std::vector<int32_t> encode(const std::string &text) const override;
  std::string decode(const std::vector<int32_t> &ids) const override;
  std::optional<int32_t> endOfText() const override;

private:
  void readNormalizer(const JsonValue &root);
  void readPreTokenizer(const JsonValue &value);
  void readAddedTokens(const JsonValue &root);
  const AddedToken *matchAdded(const std::string &text, size_t offset) const;
  void encodePlain(std::string text, std::vector<int32_t> &ids) const;

  BpeModel model;
  int64_t size = 0;
  bool sawByteLevel = false, splits = false, addPrefixSpace = false;
  /// By first byte, longest first.
  std::vector<AddedToken> added[256];
};

} // namespace

void BpeTokenizer::readNormalizer(const JsonValue &root) {
  if (const JsonValue *normalizer = root.findNonNull("normalizer"))
    normalizer->fail("H0351", "a tokenizer with a normalizer is not supported",
                     "use a tokenizer like GPT-2's");
}

void BpeTokenizer::readPreTokenizer(const JsonValue &value) {
  const std::string &type = value.at("type").asString();
  if (type == "Sequence") {
    for (const JsonValue &part : value.at("pretokenizers").elements())
      readPreTokenizer(part);
    return;
  }
  if (type == "ByteLevel") {
    sawByteLevel = true;
    splits |= value.boolOr("use_regex", true);
    addPrefixSpace = value.boolOr("add_prefix_space", true);
    return;
  }
  if (type == "Split" && value.at("pattern").isObject()) {
    const JsonValue *regex = value.at("pattern").find("Regex");
    if (regex && regex->asString() == gpt2SplitPattern &&
        value.stringOr("behavior", "") == "Isolated" &&
        !value.boolOr("invert", false)) {
      splits = true;
      return;
    }
  }
  value.fail("H0351", "a pre-tokenizer that is not GPT-2's is not supported",
             "use `bytes`, or a tokenizer like GPT-2's");
}

void BpeTokenizer::readAddedTokens(const JsonValue &root) {
  size = model.vocabSize();
  const JsonValue *tokens = root.findNonNull("added_tokens");
  if (!tokens)
    return;
  for (const JsonValue &token : tokens->elements()) {
    if (token.boolOr("single_word", false))
      token.fail("H0351", "added tokens with single_word are not supported",
                 "set single_word to false");
    const std::string &content = token.at("content").asString();
    int64_t id = token.at("id").asInteger();
    if (content.empty() || id < 0 || id >= int64_t(1) << 24)
      token.fail("H0352", "an added token without text, or with a bad id",
                 "download the tokenizer again");
    added[static_cast<uint8_t>(content[0])].push_back(
        {content, static_cast<int32_t>(id), token.boolOr("lstrip", false),
         token.boolOr("rstrip", false)});
    size = std::max(size, id + 1);
  }
  for (std::vector<AddedToken> &list : added)
    std::stable_sort(list.begin(), list.end(),
                     [](const AddedToken &a, const AddedToken &b) {
                       return a.content.size() > b.content.size();
                     });
}

const AddedToken *BpeTokenizer::matchAdded(const std::string &text,
                                           size_t offset) const {
  for (const AddedToken &token : added[static_cast<uint8_t>(text[offset])])
    if (text.compare(offset, token.content.size(), token.content) == 0)
      return &token;
  return nullptr;
}

void BpeTokenizer::encodePlain(std::string text,
                               std::vector<int32_t> &ids) const {
  if (text.empty())
    return;
  if (addPrefixSpace && text[0] != ' ')
    text.insert(text.begin(), ' ');
  if (!splits) {
    model.encode(text, ids);
    return;
  }
  for (const std::string &piece : splitGpt2(text))
    model.encode(piece, ids);
}

/// Drops white space from the end of a text.
static void trimRight(std::string &text) {
  size_t end = 0;
  for (size_t i = 0; i < text.size(); i += characterLength(text, i))
    if (!isSpaceAt(text, i))
      end = i + characterLength(text, i);
  text.resize(end);
}

std::vector<int32_t> BpeTokenizer::encode(const std::string &text) const {
  std::vector<int32_t> ids;
  size_t begin = 0, offset = 0;
  while (offset < text.size()) {
    const AddedToken *token = matchAdded(text, offset);
    if (!token) {
      ++offset;
      continue;
    }
    std::string before = text.substr(begin, offset - begin);
    if (token->stripLeft)
      trimRight(before);
    encodePlain(std::move(before), ids);
    ids.push_back(token->id);
    offset += token->content.size();
    while (token->stripRight && offset < text.size() && isSpaceAt(text, offset))
      offset += characterLength(text, offset);
    begin = offset;
  }
  encodePlain(text.substr(begin), ids);
  return ids;
}

std::string BpeTokenizer::decode(const std::vector<int32_t> &ids) const {
  std::string text;
  for (int32_t id : ids) {
    const std::string *bytes = model.bytesOf(id);
    if (bytes && !bytes->empty()) {
      text += *bytes;
      continue;
    }
    for (const std::vector<AddedToken> &list : added)
      for (const AddedToken &token : list)
        if (token.id == id)
          text += token.content;
  }
  return text;
}

std::optional<int32_t> BpeTokenizer::endOfText() const {
  for (const char *name : {"<|endoftext|>", "<|end_of_text|>"})
    for (const AddedToken &token : added[static_cast<uint8_t>(name[0])])
      if (token.content == name)
        return token.id;
  return std::nullopt;
}

std::unique_ptr<Tokenizer> io::openTokenizer(const std::string &name) {
  if (name == "bytes")
    return std::make_unique<ByteTokenizer>();
  std::string file = resolveModel(name);
  if (pathExists(file + "/tokenizer.json"))
    file += "/tokenizer.json";
  else if (name.size() < 5 || name.compare(name.size() - 5, 5, ".json") != 0)
    fail("H0350",
         "no tokenizer \"" + name +
             "\": neither `bytes` nor a directory with "
             "a tokenizer.json",
         "give `bytes`, or a directory that holds a tokenizer.json (an older "
         "one is converted by AutoTokenizer.from_pretrained(DIR)"
         ".save_pretrained(DIR))");
  JsonValue root = parseJsonFile(file, modelJsonCodes);
  const JsonValue *type = root.at("model").find("type");
  if (type && type->asString() != "BPE")
    type->fail("H0351",
               "tokenizers of type " + type->asString() + " are not supported",
               "use `bytes`, or a byte-level BPE tokenizer");
  return std::make_unique<BpeTokenizer>(root);
}
