//===- TokenizerTest.cpp - Tests of tokenizers ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Tokenizer.h"
#include "IoTestSupport.h"
#include "heddle/runtime/io/TokenFile.h"
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::io;

namespace {

/// The character of the byte-level alphabet that stands for a byte, as UTF-8.
std::string alphabet(int byte) {
  int next = 256, code = byte;
  for (int b = 0; b <= byte; ++b) {
    bool printable =
        (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    if (b == byte && !printable)
      code = next;
    next += !printable;
  }
  if (code < 0x80)
    return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6),
          static_cast<char>(0x80 | (code & 0x3F))};
}

/// A tokenizer of the 256 bytes (ids equal the bytes), some merges from 256 on,
/// and an end of text.
nlohmann::json makeTokenizer() {
  nlohmann::json vocab;
  for (int byte = 0; byte < 256; ++byte)
    vocab[alphabet(byte)] = byte;
  std::string space = alphabet(' ');
  vocab["th"] = 256;
  vocab["the"] = 257;
  vocab[space + "the"] = 258;
  vocab["aa"] = 259;
  vocab["<|endoftext|>"] = 260;
  return {{"version", "1.0"},
          {"normalizer", nullptr},
          {"added_tokens",
           {{{"id", 260}, {"content", "<|endoftext|>"}, {"special", true}}}},
          {"pre_tokenizer",
           {{"type", "ByteLevel"},
            {"add_prefix_space", false},
            {"use_regex", true}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", vocab},
            {"merges",
             {"t h", nlohmann::json{"th", "e"}, space + " the", "a a"}}}}};
}

class TokenizerTest : public ::testing::Test {
protected:
  std::unique_ptr<Tokenizer> open(const nlohmann::json &json) {
    directory.write("tokenizer.json", json.dump(1));
    return openTokenizer(directory.path());
  }
  TestDirectory directory;
};

using Ids = std::vector<int32_t>;

} // namespace

TEST_F(TokenizerTest, BytesAreBytes) {
  std::unique_ptr<Tokenizer> tokenizer = openTokenizer("bytes");
  EXPECT_EQ(tokenizer->vocabSize(), 256);
  EXPECT_EQ(tokenizer->encode("A\xFF"), (Ids{65, 255}));
  EXPECT_EQ(tokenizer->decode({65, 255, -1, 256}), "A\xFF");
  EXPECT_FALSE(tokenizer->endOfText());
}

TEST_F(TokenizerTest, MergesByRank) {
  std::unique_ptr<Tokenizer> tokenizer = open(makeTokenizer());
  EXPECT_EQ(tokenizer->vocabSize(), 261);
  EXPECT_EQ(tokenizer->endOfText(), 260);
  EXPECT_EQ(tokenizer->encode("the the"), (Ids{257, 258}));
  EXPECT_EQ(tokenizer->encode("aaaaa"), (Ids{259, 259, 'a'}));
  EXPECT_EQ(tokenizer->encode("th<|endoftext|>e"), (Ids{256, 260, 'e'}));
  EXPECT_EQ(tokenizer->encode("th  the"), (Ids{256, ' ', 258}));
  EXPECT_EQ(tokenizer->encode("\xC3\xA9\n"), (Ids{0xC3, 0xA9, '\n'}));
  std::string text = "the  the\r\n\t'll 12\xE4\xB8\x96<|endoftext|>";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST_F(TokenizerTest, FilesBesideItNameTheEndOfText) {
  nlohmann::json json = makeTokenizer();
  json["added_tokens"].push_back(json["added_tokens"][0]);
  json["added_tokens"][1]["id"] = 261;
  json["added_tokens"][1]["content"] = "<end>";
  EXPECT_EQ(open(json)->endOfText(), 260);
  directory.write("special_tokens_map.json",
                  R"({"eos_token": {"content": "<end>"}})");
  EXPECT_EQ(open(json)->endOfText(), 261);
  directory.write("tokenizer_config.json", R"({"eos_token": null})");
  EXPECT_EQ(open(json)->endOfText(), 261);
  directory.write("special_tokens_map.json", "{}");
  // A token of the vocabulary that is not an added one.
  directory.write("tokenizer_config.json", R"({"eos_token": "the"})");
  EXPECT_EQ(open(json)->endOfText(), open(json)->encode("the")[0]);
  directory.write("tokenizer_config.json", R"({"eos_token": "<none>"})");
  EXPECT_EQ(codeOf([&] { open(json)->endOfText(); }), "H0374");
}

TEST_F(TokenizerTest, BytesThatAreNoTextCountAsU_FFFD) {
  std::unique_ptr<Tokenizer> tokenizer = open(makeTokenizer());
  // Of a surrogate no byte begins a character, of "\xF0\x9F\x98" all do.
  std::string text = "\xF0\x9F\x98the\xED\xA0\x80\xC3",
              read = "\uFFFDthe\uFFFD\uFFFD\uFFFD\uFFFD";
  EXPECT_EQ(tokenizer->encode(text), tokenizer->encode(read));
  EXPECT_EQ(tokenizer->encodePrompt(text), tokenizer->encodePrompt(read));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), read);
}

TEST_F(TokenizerTest, TextToTrainOnKeepsItsBytesWhereTokensHaveThem) {
  std::string text = "the \xFFthe\xF0\x9F 12";
  nlohmann::json json = makeTokenizer();
  auto prepared = [&] {
    std::unique_ptr<Tokenizer> tokenizer = open(json);
    PrepareResult result = prepareTokens({{directory.write("t.txt", text)},
                                          directory.path(),
                                          directory / "t.bin",
                                          0});
    Ids ids(result.trainTokens);
    TokenFile::open(result.trainFile)
        .read(0, ids.size(), tokenizer->vocabSize(), ids.data());
    ids.pop_back(); // The end of the text.
    EXPECT_EQ(ids, tokenizer->encodeBytes(text));
    return tokenizer->decode(ids);
  };
  EXPECT_EQ(prepared(), text);
  json["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(prepared(), " " + text);
  // Without a token of the byte 0xFE.
  json["model"]["vocab"].erase("\u00FE");
  EXPECT_EQ(prepared(), " the \uFFFDthe\uFFFD 12");
}

TEST_F(TokenizerTest, HonoursThePrefixSpaceAndStripping) {
  nlohmann::json json = makeTokenizer();
  json["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(open(json)->encode("the"), (Ids{258}));
  json = makeTokenizer();
  json["added_tokens"][0]["lstrip"] = true;
  json["added_tokens"][0]["rstrip"] = true;
  EXPECT_EQ(open(json)->encode("a \xC2\xA0<|endoftext|> \n b"),
            (Ids{'a', 260, 'b'}));
}

TEST_F(TokenizerTest, RefusesWhatItDoesNotKnow) {
  struct {
    const char *pointer;
    nlohmann::json value;
    const char *code;
  } cases[] = {
      {"/model/type", "Marvel", "H0351"},
      {"/model/dropout", 0.1, "H0351"},
      {"/model/unk_token", "none", "H0352"},
      {"/normalizer", {{"type", "Nmt"}}, "H0351"},
      {"/normalizer", {{"type", "Sequence"}}, "H0306"},
      {"/normalizer",
       {{"type", "Precompiled"}, {"precompiled_charsmap", "AAA="}},
       "H0352"},
      {"/pre_tokenizer", {{"type", "UnicodeScripts"}}, "H0351"},
      {"/pre_tokenizer",
       {{"type", "Split"},
        {"behavior", "Isolated"},
        {"pattern", {{"Regex", "("}}}},
       "H0351"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"behavior", "Odd"}, {"pattern", {{"String", " "}}}},
       "H0351"},
      {"/post_processor", {{"type", "Odd"}}, "H0351"},
      {"/decoder", {{"type", "CTC"}}, "H0351"},
      {"/added_tokens/0/id", -1, "H0352"},
      {"/model/vocab/th", -1, "H0352"},
      {"/model/vocab/th", 257, "H0352"},
      {"/model/merges/0", "t zz", "H0352"},
      {"/model/merges/0", "th", "H0305"},
      {"/model/merges/0", 5, "H0305"},
      {"/model/vocab", 5, "H0305"},
  };
  for (const auto &test : cases) {
    nlohmann::json json = makeTokenizer();
    json[nlohmann::json::json_pointer(test.pointer)] = test.value;
    EXPECT_EQ(codeOf([&] { open(json); }), test.code) << test.pointer;
  }
  nlohmann::json json = makeTokenizer();
  json["model"].erase("vocab");
  EXPECT_EQ(codeOf([&] { open(json); }), "H0306");
  EXPECT_EQ(codeOf([&] { openTokenizer(directory / "absent"); }), "H0350");
}

TEST_F(TokenizerTest, StreamsWholeCharacters) {
  std::unique_ptr<Tokenizer> tokenizer = open(makeTokenizer());
  TextStream stream(*tokenizer);
  std::string all = "a\xF0\x9F\x98\x80 the\xFFz", shown;
  for (int32_t id : tokenizer->encodeBytes(all)) {
    std::string part = stream.add({id});
    // A byte that no character begins with is not waited for.
    EXPECT_TRUE(part.empty() || (part[0] & 0xC0) != 0x80) << part;
    shown += part;
  }
  EXPECT_EQ(shown, all);
  EXPECT_EQ(stream.add({0xF0}), "");
  EXPECT_EQ(stream.add({0x9F, 260}), "");
  EXPECT_EQ(stream.finish(), "\xF0\x9F");
  EXPECT_EQ(stream.finish(), "");
}

TEST_F(TokenizerTest, StreamsABadByteAsOneCharacter) {
  nlohmann::json vocab = {{"?", 0}, {"a", 1}, {"\u2581a", 2}};
  // The ids of the bytes begin at 3.
  for (int byte = 0; byte < 256; ++byte) {
    char token[8];
    snprintf(token, sizeof token, "<0x%02X>", byte);
    vocab[token] = byte + 3;
  }
  std::unique_ptr<Tokenizer> tokenizer = open(
      {{"added_tokens", nlohmann::json::array()},
       {"decoder",
        {{"type", "Sequence"},
         {"decoders",
          {{{"type", "Replace"},
            {"pattern", {{"String", "\u2581"}}},
            {"content", " "}},
           {{"type", "ByteFallback"}},
           {{"type", "Fuse"}},
           {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
       {"model",
        {{"type", "BPE"},
         {"byte_fallback", true},
         {"unk_token", "?"},
         {"vocab", vocab},
         {"merges", nlohmann::json::array()}}}});
  auto streamed = [&](const Ids &ids) {
    TextStream stream(*tokenizer);
    std::string text;
    for (int32_t id : ids)
      text += stream.add({id});
    return text + stream.finish();
  };
  constexpr int32_t b = 3;
  const std::string smile = "\xF0\x9F\x98\x80", bad = "\uFFFD";
  const Ids whole = {2, b + 0xF0, b + 0x9F, b + 0x98, b + 0x80};
  auto then = [&](std::initializer_list<int32_t> more) {
    Ids ids = whole;
    ids.insert(ids.end(), more);
    return ids;
  };
  EXPECT_EQ(streamed(whole), "a" + smile);
  EXPECT_EQ(streamed(then({b + 0xF0})), "a" + smile + bad);
  EXPECT_EQ(streamed(then({b + 0xF0, b + 0x9F})), "a" + smile + bad + bad);
  EXPECT_EQ(streamed(then({b + 0xFF, 1, 2})), "a" + smile + bad + "a a");
  EXPECT_EQ(streamed(then({b + 0xF0, b + 0x9F, b + 0x98, b + 0x80})),
            "a" + smile + smile);
  // As the package has it where nothing was given back.
  EXPECT_EQ(streamed({b + 0xFF, b + 0xF0, 1}), bad + bad + "a");
}

TEST_F(TokenizerTest, LowersTextsButNoTokens) {
  nlohmann::json json = makeTokenizer();
  directory.write("tokenizer.json", json.dump());
  EXPECT_EQ(openTokenizer(directory.path(), /*lowersCase=*/true)
                ->encode("THE <|endoftext|>The"),
            (Ids{257, ' ', 260, 257}));
}

TEST_F(TokenizerTest, StreamsSpacesBetweenWords) {
  nlohmann::json json = {
      {"added_tokens", nlohmann::json::array()},
      {"pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "always"}}},
      {"decoder", {{"type", "Metaspace"}, {"prepend_scheme", "always"}}},
      {"model",
       {{"type", "WordLevel"},
        {"unk_token", "?"},
        {"vocab", {{"?", 0}, {"\u2581one", 1}, {"\u2581two", 2}}}}}};
  std::unique_ptr<Tokenizer> tokenizer = open(json);
  EXPECT_EQ(tokenizer->encode("one two three"), (Ids{1, 2, 0}));
  TextStream stream(*tokenizer);
  EXPECT_EQ(stream.add({1}), "one");
  EXPECT_EQ(stream.add({2}), " two");
  EXPECT_EQ(stream.add({2, 1}), " two one");
  EXPECT_EQ(TextStream(*tokenizer, {2}).add({1}), " one");
  // A special token shows nothing, and no text begins behind it.
  json["added_tokens"] = {
      {{"id", 3}, {"content", "<tool>"}, {"special", true}}};
  tokenizer = open(json);
  TextStream behind(*tokenizer);
  EXPECT_EQ(behind.add({3}), "");
  EXPECT_EQ(behind.add({1}), "one");
  EXPECT_EQ(behind.add({3}), "");
  EXPECT_EQ(behind.add({2}), " two");
}

TEST_F(TokenizerTest, PiecesAreBytes) {
  nlohmann::json json = {
      {"added_tokens", {{{"id", 3}, {"content", "</s>"}, {"special", true}}}},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         {{{"type", "Replace"},
           {"pattern", {{"String", "\u2581"}}},
           {"content", " "}},
          {{"type", "ByteFallback"}},
          {{"type", "Fuse"}},
          {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
      {"model",
       {{"type", "BPE"},
        {"byte_fallback", true},
        {"merges", nlohmann::json::array()},
        {"vocab", {{"b", 0}, {"\u2581b", 1}, {"<0xF0>", 2}, {"</s>", 3}}}}}};
  std::unique_ptr<Tokenizer> tokenizer = open(json);
  EXPECT_EQ(tokenizer->pieceOf(0), "b");
  EXPECT_EQ(tokenizer->pieceOf(1), " b");
  EXPECT_EQ(tokenizer->pieceOf(2), "\xF0");
  EXPECT_EQ(tokenizer->pieceOf(3), "</s>");
  EXPECT_EQ(open(makeTokenizer())->pieceOf(258), " the");
}

/// As the package `tokenizers`: what marks the inside and the end of a word is
/// a part of what has no token.
TEST_F(TokenizerTest, MarksOfWordsAreBytesToo) {
  nlohmann::json json = {{"added_tokens", nlohmann::json::array()},
                         {"model",
                          {{"type", "BPE"},
                           {"byte_fallback", true},
                           {"continuing_subword_prefix", "+"},
                           {"end_of_word_suffix", "-"},
                           {"merges", nlohmann::json::array()},
                           {"vocab",
                            {{"a", 0},
                             {"<0x2B>", 1},
                             {"<0x2D>", 2},
                             {"<0x62>", 3},
                             {"<0x63>", 4}}}}}};
  EXPECT_EQ(open(json)->encode("abc"), (Ids{0, 1, 3, 1, 4, 2}));
}

/// What the package `tokenizers` makes of them.
TEST_F(TokenizerTest, PatternsAreRubys) {
  struct Case {
    std::string pattern, text;
    std::vector<std::string> pieces;
  };
  const std::vector<Case> cases = {
      {"\\w+|[^\\w\\s]+", "cafe\u0301 x", {"cafe\u0301", " ", "x"}},
      {"\\w+|[^\\w\\s]+",
       "\u0939\u093F\u0928\u094D\u0926 \u092E",
       {"\u0939\u093F\u0928\u094D\u0926", " ", "\u092E"}},
      {"^.", "ab\ncd", {"a", "b\n", "c", "d"}},
      {"\\s+$", "a \nb", {"a", " ", "\nb"}},
      {"a{,2}", "aaab", {"aa", "a", "b"}},
      {"a{2}+", "aaaab", {"aaaa", "b"}},
      {"\\h+", "af gz", {"af", " gz"}},
      {"(?m)a.b", "a\nb", {"a\nb"}},
      {"\\v", "a\u2028b\v", {"a\u2028b", "\v"}},
      {"\\u0062", "abc", {"a", "b", "c"}},
      {" ?[^(\\s|[.,!?])]+", " a,b (c)", {" a", ",", "b", " (", "c", ")"}},
      {"[[:alpha:]]+", "a\u00E9\u00B2\u0031", {"a\u00E9", "\u00B2\u0031"}},
      {"\\p{Katakana}+", "\u30A2\u30FC", {"\u30A2", "\u30FC"}},
      {"\\bx", "ax x\u0301x", {"ax ", "x", "\u0301x"}},
      {"\\p{^Alpha}+", "a1-b", {"a", "1-", "b"}},
      {"x\\Qy", "xQy", {"xQy"}},
      {"[a\\W]+", "ab!\u4E16a. b", {"a", "b", "!", "\u4E16", "a. ", "b"}},
      {"[^\\W_]+", "a_\u00E9\u0301!", {"a", "_", "\u00E9\u0301", "!"}},
      {"[a-f&&[^bd]]+", "abcdef", {"a", "b", "c", "d", "ef"}},
      {"[^a-z&&\\w]+", "aB1c-", {"a", "B1", "c", "-"}},
      {"[[:punct:]]+", "$a\u20AC", {"$", "a", "\u20AC"}},
      {"[.\\W]+x",
       "..!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.y",
       {"..!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.!.y"}}};
  for (const Case &each : cases) {
    nlohmann::json vocab = {{"?", 0}};
    Ids expected;
    for (const std::string &piece : each.pieces)
      expected.push_back(
          vocab.emplace(piece, int32_t(vocab.size())).first.value());
    nlohmann::json json = {
        {"added_tokens", nlohmann::json::array()},
        {"pre_tokenizer",
         {{"type", "Split"},
          {"pattern", {{"Regex", each.pattern}}},
          {"behavior", "Isolated"}}},
        {"model",
         {{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", vocab}}}};
    EXPECT_EQ(open(json)->encode(each.text), expected) << each.pattern;
    const std::string deep =
        std::string(300000, '[') + "a" + std::string(300000, ']');
    for (const char *wrong :
         {"[a&&]", "[[:nothing:]]", "[a[b]", "(?~a)", "\\y", deep.c_str()}) {
      json["pre_tokenizer"]["pattern"]["Regex"] = wrong;
      EXPECT_EQ(codeOf([&] { open(json); }), "H0351")
          << std::string(wrong, 0, 20);
    }
  }
}

TEST_F(TokenizerTest, LongTextsAreCutWhereItDoesNotMatter) {
  std::unique_ptr<Tokenizer> tokenizer = open(makeTokenizer());
  std::string text;
  while (text.size() < (3u << 20))
    text += "the aaaa  the\n";
  PrepareResult result = prepareTokens({{directory.write("t.txt", text)},
                                        directory.path(),
                                        directory / "t.bin",
                                        0});
  Ids expected = tokenizer->encode(text);
  expected.push_back(260);
  ASSERT_EQ(result.trainTokens, static_cast<int64_t>(expected.size()));
  Ids got(expected.size());
  TokenFile::open(result.trainFile).read(0, got.size(), 261, got.data());
  EXPECT_EQ(got, expected);
}
