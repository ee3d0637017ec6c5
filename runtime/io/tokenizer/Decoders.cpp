//===- Decoders.cpp - Tokens' texts to a text -----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The decoders of tokenizer.json.
//
//===----------------------------------------------------------------------===//

#include "Stages.h"
#include "Vocabulary.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"

using namespace heddle;
using namespace heddle::io;

using Texts = std::vector<std::string>;

static std::string join(const Texts &texts) {
  std::string all;
  for (const std::string &text : texts)
    all += text;
  return all;
}

static void replaceAll(std::string &text, const std::string &from,
                       const std::string &to) {
  if (from.empty())
    return;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to);
}

/// Returns a decoder that applies `change(text, isFirst)` to the text of each
/// token, independently of the other tokens.
template <typename Change> static Decoder eachText(Change change) {
  return [change](Texts texts) {
    for (size_t i = 0; i < texts.size(); ++i)
      change(texts[i], i == 0);
    return texts;
  };
}

static Decoder makeByteLevel(const JsonValue &) {
  return [](const Texts &texts) {
    std::string bytes;
    for (const std::string &text : texts)
      bytes += alphabet::toBytes(text).value_or(text);
    return Texts{bytes};
  };
}

/// Returns bytes as text: unchanged if they are valid UTF-8, else one U+FFFD
/// for each byte.
static std::string textOfBytes(const std::string &bytes) {
  if (unicode::isValid(bytes))
    return bytes;
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i)
    unicode::append(text, 0xFFFD);
  return text;
}

static Decoder makeByteFallback(const JsonValue &) {
  return [](const Texts &texts) {
    Texts result;
    std::string bytes;
    auto flush = [&] {
      if (!bytes.empty())
        result.push_back(textOfBytes(bytes));
      bytes.clear();
    };
    for (const std::string &text : texts) {
      int byte = byteOfToken(text);
      if (byte >= 0) {
        bytes += static_cast<char>(byte);
        continue;
      }
      flush();
      result.push_back(text);
    }
    flush();
    return result;
  };
}

static Decoder makeFuse(const JsonValue &) {
  return [](const Texts &texts) { return Texts{join(texts)}; };
}

static Decoder makeStrip(const JsonValue &value) {
  std::string content = value.at("content").asString();
  int64_t start = value.integerOr("start", 0),
          stop = value.integerOr("stop", 0);
  return eachText([=](std::string &text, bool) {
    size_t width = content.size();
    for (int64_t i = 0;
         i < start && width > 0 && text.compare(0, width, content) == 0; ++i)
      text.erase(0, width);
    for (int64_t i = 0; i < stop && width > 0 && text.size() >= width &&
                        text.compare(text.size() - width, width, content) == 0;
         ++i)
      text.resize(text.size() - width);
  });
}

static Decoder makeReplace(const JsonValue &value) {
  return eachText(
      [pattern = patternOf(value), content = value.at("content").asString()](
          std::string &text, bool) { text = pattern.replace(text, content); });
}

/// Removes spaces before punctuation and in English contractions.
static void cleanUp(std::string &text) {
  static constexpr std::pair<const char *, const char *> rules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (auto [from, to] : rules)
    replaceAll(text, from, to);
}

static Decoder makeWordPiece(const JsonValue &value) {
  std::string prefix = value.stringOr("prefix", "##");
  bool cleans = value.boolOr("cleanup", true);
  return eachText([=](std::string &text, bool isFirst) {
    if (!isFirst && text.compare(0, prefix.size(), prefix) == 0)
      text.erase(0, prefix.size());
    else if (!isFirst)
      text.insert(text.begin(), ' ');
    if (cleans)
      cleanUp(text);
  });
}

static Decoder makeMetaspace(const JsonValue &value) {
  std::string mark = value.stringOr("replacement", "\u2581");
  bool prepends =
      value.stringOr("prepend_scheme", value.boolOr("add_prefix_space", true)
                                           ? "always"
                                           : "never") != "never";
  return eachText([=](std::string &text, bool isFirst) {
    replaceAll(text, mark, isFirst && prepends ? "" : " ");
  });
}

static Decoder makeBpe(const JsonValue &value) {
  std::string suffix = value.stringOr("suffix", "</w>");
  return [suffix](Texts texts) {
    for (size_t i = 0; i < texts.size(); ++i)
      replaceAll(texts[i], suffix, i + 1 == texts.size() ? "" : " ");
    return texts;
  };
}

static Decoder makeSequence(const JsonValue &value) {
  std::vector<Decoder> parts;
  for (const JsonValue &part : value.at("decoders").elements())
    parts.push_back(makeDecoder(part));
  return [parts](Texts texts) {
    for (const Decoder &part : parts)
      texts = part(std::move(texts));
    return texts;
  };
}

Decoder io::makeDecoder(const JsonValue &value) {
  return makeStage<Decoder>(value, "decoder",
                            {{"ByteLevel", makeByteLevel},
                             {"ByteFallback", makeByteFallback},
                             {"Fuse", makeFuse},
                             {"Strip", makeStrip},
                             {"Replace", makeReplace},
                             {"WordPiece", makeWordPiece},
                             {"Metaspace", makeMetaspace},
                             {"BPEDecoder", makeBpe},
                             {"Sequence", makeSequence}});
}
