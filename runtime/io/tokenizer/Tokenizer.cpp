//===- Tokenizer.cpp - Text to tokens and back ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tokenizers: bytes, and the pipeline of stages that a Hugging Face
// tokenizer.json describes (Stages.h).
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Tokenizer.h"
#include "AddedTokens.h"
#include "Stages.h"
#include "Vocabulary.h"
#include "heddle/runtime/io/Checkpoint.h"
#include "heddle/runtime/io/TokenNames.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"
#include <algorithm>
#include <filesystem>

using namespace heddle;
using namespace heddle::io;

namespace {

/// A tokenizer for which every byte is a token.
class ByteTokenizer : public Tokenizer {
public:
  int64_t vocabSize() const override { return 256; }
  std::vector<int32_t> encode(const std::string &text) const override {
    std::vector<int32_t> ids(text.size());
    std::transform(text.begin(), text.end(), ids.begin(),
                   [](char c) { return static_cast<uint8_t>(c); });
    return ids;
  }
  std::vector<int32_t> encodePrompt(const std::string &text) const override {
    return encode(text);
  }
  bool splitsBeforeWords() const override { return true; }
  std::string decode(const std::vector<int32_t> &ids, bool) const override {
    std::string text;
    for (int32_t id : ids)
      if (id >= 0 && id < 256)
        text += static_cast<char>(id);
    return text;
  }
  std::string pieceOf(int32_t id) const override {
    return decode({id}, /*withSpecial=*/true);
  }
};

/// A tokenizer of Hugging Face's tokenizer.json.
class Pipeline final : public Tokenizer {
public:
  /// `directory` has the files beside tokenizer.json; "": none.
  Pipeline(const JsonValue &root, const std::string &directory, bool lowersCase)
      : model(makeTokenModel(root.at("model"))),
        normalizer(normalizerOf(root, lowersCase)),
        preTokenizer(part(root, "pre_tokenizer", makePreTokenizer,
                          PreTokenizer([](std::vector<TextPiece> &) {}))),
        special(
            part(root, "post_processor", makePostProcessor, SpecialTokens())),
        decoder(part(root, "decoder", makeDecoder, Decoder(joinedBySpaces))),
        added(root, *model, normalizer),
        names(readTokenNames(directory, &root)) {}

  int64_t vocabSize() const override {
    return std::max(model->vocabSize(), added.vocabSize());
  }
  std::vector<int32_t> encode(const std::string &text) const override {
    return encodeAsIs(unicode::isValid(text) ? text
                                             : unicode::replaceInvalid(text));
  }
  std::vector<int32_t> encodeBytes(const std::string &text) const override {
    return !unicode::isValid(text) && keepsBytes() ? encodeAsIs(text)
                                                   : encode(text);
  }
  std::vector<int32_t> encodePrompt(const std::string &text) const override;
  std::string decode(const std::vector<int32_t> &ids,
                     bool withSpecial) const override;
  std::string pieceOf(int32_t id) const override;
  std::optional<int32_t> endOfText() const override;
  std::vector<int32_t> openingTokens() const override { return special.before; }
  std::vector<int32_t> closingTokens() const override { return special.after; }
  std::optional<int32_t> namedToken(const std::string &name) const override;
  bool splitsBeforeWords() const override;

private:
  /// Encodes a text that may contain invalid UTF-8.
  std::vector<int32_t> encodeAsIs(const std::string &text) const;
  bool keepsBytes() const;
  /// Decodes the texts of tokens.
  std::string textOf(std::vector<std::string> tokens) const;
  template <typename Stage>
  static Stage part(const JsonValue &root, const char *key,
                    Stage (*make)(const JsonValue &), Stage none) {
    const JsonValue *value = root.findNonNull(key);
    return value ? make(*value) : none;
  }
  static Normalizer normalizerOf(const JsonValue &root, bool lowersCase) {
    Normalizer own = part(root, "normalizer", makeNormalizer,
                          Normalizer([](TextPiece piece) { return piece; }));
    return lowersCase ? lowered(std::move(own)) : own;
  }
  static std::vector<std::string>
  joinedBySpaces(std::vector<std::string> texts) {
    for (size_t i = 1; i < texts.size(); ++i)
      texts[i].insert(texts[i].begin(), ' ');
    return texts;
  }

  std::string directory;
  std::unique_ptr<TokenModel> model;
  Normalizer normalizer;
  PreTokenizer preTokenizer;
  SpecialTokens special;
  Decoder decoder;
  AddedTokens added;
  TokenNames names;
};

} // namespace

std::vector<int32_t> Pipeline::encodeAsIs(const std::string &text) const {
  std::vector<int32_t> ids;
  // Cache short words, which occur again and again.
  constexpr size_t longestWord = 64;
  std::unordered_map<std::string, std::vector<int32_t>> words;
  for (AddedTokens::Segment &segment : added.split(text, normalizer)) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
      continue;
    }
    std::vector<TextPiece> pieces = {std::move(segment.piece)};
    preTokenizer(pieces);
    for (const TextPiece &piece : pieces) {
      if (piece.text.size() > longestWord) {
        model->encode(piece.text, ids);
        continue;
      }
      auto [word, isNew] = words.try_emplace(piece.text);
      if (isNew)
        model->encode(piece.text, word->second);
      ids.insert(ids.end(), word->second.begin(), word->second.end());
    }
  }
  return ids;
}

std::vector<int32_t> Pipeline::encodePrompt(const std::string &text) const {
  std::vector<int32_t> ids = encode(text);
  ids.insert(ids.begin(), special.before.begin(), special.before.end());
  ids.insert(ids.end(), special.after.begin(), special.after.end());
  return ids;
}

std::string Pipeline::decode(const std::vector<int32_t> &ids,
                             bool withSpecial) const {
  std::vector<std::string> texts;
  for (int32_t id : ids) {
    const std::string *known = added.tokenOf(id);
    const std::string &text = known ? *known : model->tokenOf(id);
    if (!text.empty() && (withSpecial || !added.isSpecial(id)))
      texts.push_back(text);
  }
  return textOf(std::move(texts));
}

std::string Pipeline::textOf(std::vector<std::string> tokens) const {
  std::string all;
  for (const std::string &text : decoder(std::move(tokens)))
    all += text;
  return all;
}

std::string Pipeline::pieceOf(int32_t id) const {
  const std::string *known = added.tokenOf(id);
  const std::string &text = known ? *known : model->tokenOf(id);
  std::string alone = textOf({text});
  // A token such as <0x0A> represents a byte. The decoder would write a
  // replacement symbol for it if the byte alone is no character, so return the
  // byte itself.
  int byte = byteOfToken(text);
  if (byte >= 0 && alone != text)
    return std::string(1, static_cast<char>(byte));
  std::string twice = textOf({text, text});
  return twice.substr(std::min(alone.size(), twice.size()));
}

std::optional<int32_t> Pipeline::endOfText() const {
  if (auto text = names.find("eos_token"); text != names.end()) {
    std::optional<int32_t> id = namedToken("eos_token");
    if (!id)
      fail("H0374",
           "tokenizer.json has no token \"" + text->second +
               "\", which the files beside it name as the end of a text",
           "let \"eos_token\" in tokenizer_config.json name a token that it "
           "has, or leave it out");
    return id;
  }
  for (const char *name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"})
    if (std::optional<int32_t> id = added.find(name))
      return id;
  return std::nullopt;
}

std::optional<int32_t> Pipeline::namedToken(const std::string &name) const {
  auto text = names.find(name);
  if (text == names.end())
    return std::nullopt;
  std::optional<int32_t> id = added.find(text->second);
  return id ? id : model->find(text->second);
}

/// Tests whether bytes that are not valid UTF-8 survive encoding and decoding.
bool Pipeline::keepsBytes() const {
  std::string bytes;
  for (int byte = 0x80; byte < 0x100; ++byte)
    (bytes += static_cast<char>(byte)) += ' ';
  try {
    // Some tokenizers insert a space before a text, so the decoded text may
    // have one space more than `bytes`.
    std::string text = decode(encodeAsIs(bytes), /*withSpecial=*/true);
    return text == bytes || text == " " + bytes;
  } catch (const UserError &) { // Some byte has no token.
    return false;
  }
}

/// Tests on samples whether the tokenizer splits a text before a space between
/// two letters. The samples have small and capital letters and several spaces.
/// A tokenizer that splits all of them is taken to split every text so.
bool Pipeline::splitsBeforeWords() const {
  for (const std::string text : {"a b", "aB Cd", "Ab c", "ab  cd ef"}) {
    size_t space = text.rfind(' ');
    std::vector<int32_t> whole = encode(text),
                         parts = encode(text.substr(0, space));
    std::vector<int32_t> rest = encode(text.substr(space));
    parts.insert(parts.end(), rest.begin(), rest.end());
    std::vector<TextPiece> pieces = {normalizer({text, 1})};
    preTokenizer(pieces);
    if (whole != parts || pieces.size() < 2)
      return false;
  }
  return true;
}

/// Whether a text ends with an incomplete character, or with U+FFFD, which a
/// decoder may write for an incomplete character.
static bool endsInside(const std::string &text) {
  static const std::string replacement = "\uFFFD";
  size_t begin = text.size();
  while (begin > 0 && text.size() - begin < 4 &&
         (static_cast<uint8_t>(text[--begin]) & 0xC0) == 0x80)
    ;
  if (text.size() >= replacement.size() &&
      text.compare(text.size() - replacement.size(), replacement.size(),
                   replacement) == 0)
    return true;
  uint8_t first = text.empty() ? 0 : static_cast<uint8_t>(text[begin]);
  size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 1;
  return begin + length > text.size();
}

TextStream::TextStream(const Tokenizer &tokenizer,
                       const std::vector<int32_t> &before)
    : tokenizer(tokenizer) {
  // The text of the next token depends only on the last tokens before it.
  constexpr size_t most = 64;
  shown = std::min(most, before.size());
  ids.assign(before.end() - int64_t(shown), before.end());
}

std::string TextStream::rest(const std::string &text) {
  std::vector<int32_t> before(ids.begin(), ids.begin() + shown);
  std::string known = tokenizer.decode(before, /*withSpecial=*/false), part;
  if (text.compare(0, known.size(), known) == 0) {
    part = text.substr(known.size());
  } else {
    // Some tokenizers decode a run of byte tokens as a whole. Then one byte
    // that is not valid UTF-8 changes the text of the whole run, even of tokens
    // whose text was already returned. Decode only the tokens whose text was
    // not returned yet.
    std::vector<int32_t> after(ids.begin() + shown, ids.end());
    part = tokenizer.decode(after, /*withSpecial=*/false);
  }
  // Keep the earlier tokens if the new ones, such as special tokens, have no
  // text: the text of the next token depends on the last token with text.
  if (!part.empty())
    ids.erase(ids.begin(), ids.begin() + shown);
  shown = ids.size();
  return part;
}

std::string TextStream::add(const std::vector<int32_t> &more) {
  ids.insert(ids.end(), more.begin(), more.end());
  std::string text = tokenizer.decode(ids, /*withSpecial=*/false);
  return endsInside(text) ? "" : rest(text);
}

std::string TextStream::finish() {
  return rest(tokenizer.decode(ids, /*withSpecial=*/false));
}

std::unique_ptr<Tokenizer> io::openTokenizer(const std::string &name,
                                             bool lowersCase) {
  if (name == "bytes")
    return std::make_unique<ByteTokenizer>();
  std::string file = resolveModel(name), directory;
  if (pathExists(file + "/tokenizer.json")) {
    directory = file;
    file += "/tokenizer.json";
  } else if (name.size() < 5 ||
             name.compare(name.size() - 5, 5, ".json") != 0) {
    fail("H0350",
         "no tokenizer \"" + name +
             "\": neither `bytes` nor a directory with "
             "a tokenizer.json",
         "give `bytes`, or a directory that holds a tokenizer.json (an older "
         "one is converted by AutoTokenizer.from_pretrained(DIR)"
         ".save_pretrained(DIR))");
  } else if (std::filesystem::path path = file;
             path.filename() == "tokenizer.json") {
    directory = path.parent_path().empty() ? "." : path.parent_path().string();
  }
  return std::make_unique<Pipeline>(parseJsonFile(file, modelJsonCodes),
                                    directory, lowersCase);
}
