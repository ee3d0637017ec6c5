//===- PreTokenizers.cpp - Split texts into pieces ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pre-tokenizers of tokenizer.json.
//
//===----------------------------------------------------------------------===//

#include "Stages.h"
#include "Vocabulary.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"

using namespace heddle;
using namespace heddle::io;

namespace {
/// What a pre-tokenizer does with the matches of its pattern: removes them,
/// makes them pieces of their own, or merges them with neighbours.
enum class Behavior {
  Removed,
  Isolated,
  MergedWithPrevious,
  MergedWithNext,
  Contiguous
};
} // namespace

using Finder = std::function<std::vector<Span>(const std::string &)>;

static Behavior behaviorOf(const JsonValue &value, const char *fallback) {
  static constexpr std::pair<const char *, Behavior> names[] = {
      {"Removed", Behavior::Removed},
      {"Isolated", Behavior::Isolated},
      {"MergedWithPrevious", Behavior::MergedWithPrevious},
      {"MergedWithNext", Behavior::MergedWithNext},
      {"Contiguous", Behavior::Contiguous}};
  std::string wanted = value.stringOr("behavior", fallback);
  for (auto [name, behavior] : names)
    if (wanted == name)
      return behavior;
  value.at("behavior")
      .fail("H0351", "the behavior is not known",
            "download the tokenizer again");
}

/// Returns the spans into which a text is split. `spans` has the matches of the
/// pattern and the text between them, which are merged as `behavior` says. In
/// the result `isMatch` is true only for the matches that Behavior::Removed
/// removes, and the caller drops these spans.
static std::vector<Span> arrange(std::vector<Span> spans, Behavior behavior) {
  if (behavior == Behavior::Removed || behavior == Behavior::Isolated) {
    if (behavior == Behavior::Isolated)
      for (Span &span : spans)
        span.isMatch = false;
    return spans;
  }
  bool isBackward = behavior == Behavior::MergedWithNext;
  if (isBackward)
    std::reverse(spans.begin(), spans.end());
  std::vector<Span> merged;
  bool wasMatch = false;
  for (const Span &span : spans) {
    bool joins = behavior == Behavior::Contiguous ? span.isMatch == wasMatch
                                                  : span.isMatch && !wasMatch;
    wasMatch = span.isMatch;
    if (joins && !merged.empty()) {
      merged.back().begin = std::min(merged.back().begin, span.begin);
      merged.back().end = std::max(merged.back().end, span.end);
    } else {
      merged.push_back({span.begin, span.end, false});
    }
  }
  if (isBackward)
    std::reverse(merged.begin(), merged.end());
  return merged;
}

/// Splits every piece at the matches that `find` returns. Drops empty parts.
static void split(std::vector<TextPiece> &pieces, Behavior behavior,
                  const Finder &find) {
  std::vector<TextPiece> parts;
  for (const TextPiece &piece : pieces)
    for (const Span &span : arrange(find(piece.text), behavior))
      if (!span.isMatch && span.begin < span.end)
        parts.push_back(piece.part(span.begin, span.end));
  pieces = std::move(parts);
}

/// Returns a Finder of the characters for which `isWanted` is true. Each of
/// these characters is a match of its own.
static Finder charactersThat(bool (*isWanted)(uint32_t)) {
  return [isWanted](const std::string &text) {
    std::vector<Span> spans;
    size_t done = 0;
    unicode::forEach(text, [&](unicode::Character character, size_t offset) {
      if (!isWanted(character.code))
        return;
      size_t end = offset + character.length;
      if (done < offset)
        spans.push_back({done, offset, false});
      spans.push_back({offset, end, true});
      done = end;
    });
    if (done < text.size())
      spans.push_back({done, text.size(), false});
    return spans;
  };
}

Regex io::patternOf(const JsonValue &value) {
  const JsonValue &pattern = value.at("pattern");
  if (const JsonValue *text = pattern.find("String"))
    return Regex::literal(text->asString());
  return Regex(pattern.at("Regex").asString(), pattern.at("Regex"));
}

static Finder matchesOf(const Regex &regex) {
  return [regex](const std::string &text) { return regex.spans(text); };
}

static PreTokenizer makeSplitter(Behavior behavior, const Finder &find) {
  return [=](std::vector<TextPiece> &pieces) { split(pieces, behavior, find); };
}

static PreTokenizer makeSplit(const JsonValue &value) {
  Behavior behavior = behaviorOf(value, "");
  Finder find = matchesOf(patternOf(value));
  if (!value.boolOr("invert", false))
    return makeSplitter(behavior, find);
  return makeSplitter(behavior, [find](const std::string &text) {
    std::vector<Span> spans = find(text);
    for (Span &span : spans)
      span.isMatch = !span.isMatch;
    return spans;
  });
}

/// GPT-2's pattern (Radford et al., 2019), the default of byte-level
/// tokenizers.
static constexpr const char *gpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
    "|\\s+(?!\\S)|\\s+";

static PreTokenizer makeByteLevel(const JsonValue &value) {
  bool prefixes = value.boolOr("add_prefix_space", true);
  Finder find;
  if (value.boolOr("use_regex", true))
    find = matchesOf(Regex(gpt2Pattern, value));
  return [prefixes, find](std::vector<TextPiece> &pieces) {
    for (TextPiece &piece : pieces)
      if (prefixes && piece.text[0] != ' ')
        prepend(piece, " ");
    if (find)
      split(pieces, Behavior::Isolated, find);
    for (TextPiece &piece : pieces) {
      piece = bytesAsCharacters(piece);
    }
  };
}

/// SentencePiece's pre-tokenizer: replaces each space by a visible character,
/// and splits the text before each of these characters.
static PreTokenizer makeMetaspace(const JsonValue &value) {
  std::string mark = value.stringOr("replacement", "\u2581");
  std::string scheme = value.stringOr(
      "prepend_scheme",
      value.boolOr("add_prefix_space", true) ? "always" : "never");
  bool splits = value.boolOr("split", true);
  Finder find = matchesOf(Regex::literal(mark));
  Regex space = Regex::literal(" ");
  return [=](std::vector<TextPiece> &pieces) {
    for (TextPiece &piece : pieces) {
      piece = replace(piece, space, mark);
      bool isPrefixed =
          scheme == "always" || (scheme == "first" && piece.head > 0);
      if (isPrefixed && piece.text.compare(0, mark.size(), mark) != 0)
        prepend(piece, mark);
    }
    if (splits)
      split(pieces, Behavior::MergedWithNext, find);
  };
}

static PreTokenizer makeWhitespaceSplit(const JsonValue &) {
  return makeSplitter(Behavior::Removed, charactersThat(unicode::isSpace));
}

/// Finds words, and sequences of characters that are neither words nor white
/// space.
static PreTokenizer makeWhitespace(const JsonValue &) {
  return [](std::vector<TextPiece> &pieces) {
    split(pieces, Behavior::Removed, charactersThat(unicode::isSpace));
    split(pieces, Behavior::Contiguous, charactersThat(unicode::isWord));
  };
}

static PreTokenizer makeBert(const JsonValue &) {
  return [](std::vector<TextPiece> &pieces) {
    split(pieces, Behavior::Removed, charactersThat(unicode::isSpace));
    split(pieces, Behavior::Isolated, charactersThat(unicode::isPunctuation));
  };
}

static PreTokenizer makePunctuation(const JsonValue &value) {
  return makeSplitter(behaviorOf(value, "Isolated"),
                      charactersThat(unicode::isPunctuation));
}

static PreTokenizer makeDigits(const JsonValue &value) {
  return makeSplitter(value.boolOr("individual_digits", false)
                          ? Behavior::Isolated
                          : Behavior::Contiguous,
                      charactersThat(unicode::isNumber));
}

static PreTokenizer makeDelimiter(const JsonValue &value) {
  return makeSplitter(
      Behavior::Removed,
      matchesOf(Regex::literal(value.at("delimiter").asString())));
}

static PreTokenizer makeSequence(const JsonValue &value) {
  std::vector<PreTokenizer> parts;
  for (const JsonValue &part : value.at("pretokenizers").elements())
    parts.push_back(makePreTokenizer(part));
  return [parts](std::vector<TextPiece> &pieces) {
    for (const PreTokenizer &part : parts)
      part(pieces);
  };
}

PreTokenizer io::makePreTokenizer(const JsonValue &value) {
  return makeStage<PreTokenizer>(value, "pre-tokenizer",
                                 {{"ByteLevel", makeByteLevel},
                                  {"Split", makeSplit},
                                  {"Metaspace", makeMetaspace},
                                  {"BertPreTokenizer", makeBert},
                                  {"Whitespace", makeWhitespace},
                                  {"WhitespaceSplit", makeWhitespaceSplit},
                                  {"Punctuation", makePunctuation},
                                  {"Digits", makeDigits},
                                  {"CharDelimiterSplit", makeDelimiter},
                                  {"Sequence", makeSequence}});
}
