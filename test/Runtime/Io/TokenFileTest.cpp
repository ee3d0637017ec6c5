//===- TokenFileTest.cpp - Tests of token files -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/TokenFile.h"
#include "IoTestSupport.h"
#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::io;

template <typename T>
static std::string wordsOf(std::initializer_list<T> values) {
  std::string bytes;
  for (T value : values)
    bytes += bytesOf(value);
  return bytes;
}

static std::string llmcHeader(int32_t magic, int32_t version, int32_t count) {
  std::string header = wordsOf<int32_t>({magic, version, count});
  header.resize(1024, 0);
  return header;
}

static std::vector<int32_t> allOf(const TokenFile &file, int64_t vocab) {
  std::vector<int32_t> out(file.size());
  file.read(0, file.size(), vocab, out.data());
  for (int64_t i = 0; i < file.size(); ++i)
    EXPECT_EQ(file.at(i), out[i]);
  return out;
}

/// An index of two sequences, the second before the first in the file.
static std::string megatronIndex(uint8_t dtype, int64_t width) {
  return std::string("MMIDIDX\0\0", 9) + bytesOf(uint64_t(1)) + bytesOf(dtype) +
         bytesOf(uint64_t(2)) + bytesOf(uint64_t(3)) +
         wordsOf<int32_t>({2, 3}) + wordsOf<int64_t>({3 * width, 0}) +
         wordsOf<int64_t>({0, 1, 2});
}

TEST(TokenFile, ReadsLlmC) {
  TestDirectory directory;
  std::string narrow = directory.write(
      "a.bin", llmcHeader(20240520, 1, 3) + wordsOf<uint16_t>({1, 65535, 3}));
  std::string wide = directory.write(
      "b.bin", llmcHeader(20240801, 7, 2) + wordsOf<uint32_t>({128000, 5}));
  EXPECT_EQ(TokenFile::open(narrow).format(), TokenFile::Format::LlmC16);
  EXPECT_EQ(allOf(TokenFile::open(narrow), 65536),
            (std::vector<int32_t>{1, 65535, 3}));
  EXPECT_EQ(TokenFile::open(wide).format(), TokenFile::Format::LlmC32);
  EXPECT_EQ(allOf(TokenFile::open(wide), 128256),
            (std::vector<int32_t>{128000, 5}));
}

TEST(TokenFile, ReadsMegatron) {
  TestDirectory directory;
  directory.write("m.idx", megatronIndex(8, 2));
  directory.write("m.bin", wordsOf<uint16_t>({10, 20, 30, 40, 50}));
  for (const char *name : {"m", "m.bin", "m.idx"}) {
    TokenFile file = TokenFile::open(directory / name);
    EXPECT_EQ(file.format(), TokenFile::Format::Megatron);
    EXPECT_EQ(allOf(file, 100), (std::vector<int32_t>{40, 50, 10, 20, 30}));
    int32_t middle[2];
    file.read(1, 2, 100, middle);
    EXPECT_EQ(middle[0], 50);
    EXPECT_EQ(middle[1], 10);
  }
  directory.write("i.idx", megatronIndex(4, 4));
  directory.write("i.bin", wordsOf<int32_t>({10, -1, 30, 70000, 50}));
  TokenFile file = TokenFile::open(directory / "i");
  EXPECT_EQ(file.at(0), 70000);
  int32_t out[5];
  Diagnostic diagnostic = diagnosticOf([&] { file.read(0, 5, 80000, out); });
  EXPECT_EQ(diagnostic.code, "H0346");
  EXPECT_EQ(diagnostic.message,
            "token 3 is -1, but the vocabulary has 80000 tokens; it stands at "
            "byte 4 of the file");
  EXPECT_EQ(file.scan(0, 5, 80000).firstBad, 3);
  EXPECT_EQ(file.scan(0, 3, 80000).firstBad, -1);
  EXPECT_EQ(file.scan(0, 3, 70000).firstBad, 0);
}

TEST(TokenFile, AScanFindsWhatReadingRefuses) {
  TestDirectory directory;
  constexpr int64_t count = 1003;
  const int64_t widths[] = {0, 1, 1, 2, 4, 8, 0, 0, 2}; // By Megatron's codes.
  for (uint8_t code : {1, 2, 3, 4, 5, 8}) {
    int64_t width = widths[code];
    std::string index =
        std::string("MMIDIDX\0\0", 9) + bytesOf(uint64_t(1)) + bytesOf(code) +
        bytesOf(uint64_t(1)) + bytesOf(uint64_t(1)) +
        wordsOf<int32_t>({int32_t(count)}) + wordsOf<int64_t>({0, 0});
    directory.write("s.idx", index);
    bool isSigned = code >= 2 && code <= 5;
    for (int64_t bad : {int64_t(100), int64_t(-1)}) {
      if (bad < 0 && !isSigned)
        continue;
      for (int64_t place : {int64_t(0), int64_t(517), count - 1}) {
        std::string bytes(count * width, '\0');
        directory.write("s.bin", bytes);
        TokenFile::Scan good =
            TokenFile::open(directory / "s").scan(0, count, 100);
        EXPECT_EQ(good.firstBad, -1);
        std::memcpy(&bytes[place * width], &bad, width);
        directory.write("s.bin", bytes);
        TokenFile::Scan found =
            TokenFile::open(directory / "s").scan(0, count, 100);
        EXPECT_EQ(found.firstBad, place) << int(code) << " " << bad;
        EXPECT_NE(found.hash, good.hash);
        // A negative token is below every vocabulary.
        EXPECT_EQ(TokenFile::open(directory / "s")
                      .scan(0, count, int64_t(1) << 40)
                      .firstBad,
                  bad < 0 ? place : -1);
      }
    }
  }
}

TEST(TokenFile, ReadsHeaderlessFilesAndText) {
  TestDirectory directory;
  std::string file =
      directory.write("train.bin", wordsOf<uint16_t>({50256, 7, 7}));
  EXPECT_EQ(TokenFile::open(file).format(), TokenFile::Format::Headerless16);
  EXPECT_EQ(allOf(TokenFile::open(file), 50257),
            (std::vector<int32_t>{50256, 7, 7}));
  std::string text = directory.write("a.txt", "Hi\xFF");
  EXPECT_EQ(allOf(TokenFile::open(text, 256), 256),
            (std::vector<int32_t>{'H', 'i', 255}));
  EXPECT_EQ(codeOf([&] { TokenFile::open(text, 255); }), "H0345");
  EXPECT_EQ(codeOf([&] { TokenFile::open(text, 50257); }), "H0345");
}

TEST(TokenFile, SaysWhatIsWrong) {
  TestDirectory directory;
  struct {
    const char *name;
    std::string bytes;
    const char *code;
  } cases[] = {
      {"v.bin", llmcHeader(20240520, 2, 0), "H0341"},
      {"v7.bin", llmcHeader(20240801, 1, 0), "H0341"},
      {"short.bin", llmcHeader(20240520, 1, 0).substr(0, 1000), "H0342"},
      {"cut.bin", llmcHeader(20240520, 1, 2) + "ab", "H0342"},
      {"long.bin", llmcHeader(20240520, 1, 1) + "abcd", "H0342"},
      {"negative.bin", llmcHeader(20240520, 1, -1), "H0342"},
      {"odd.bin", "\1\2\3", "H0343"},
      {"empty.bin", "", "H0343"},
      {"empty.txt", "", "H0343"},
      {"model.bin", llmcHeader(20240326, 3, 0), "H0348"},
      {"eval.bin", llmcHeader(20240522, 1, 0), "H0348"},
      {"array.bin", "\x93NUMPY more", "H0348"},
      {"pickle.bin", "PK\3\4 more", "H0348"},
      {"text.bin", std::string(100, 'a') + "\n", "H0348"},
      {"x.jsonl", "{}", "H0348"},
  };
  for (const auto &test : cases)
    EXPECT_EQ(codeOf([&] {
                TokenFile::open(directory.write(test.name, test.bytes));
              }),
              test.code)
        << test.name;
  EXPECT_EQ(codeOf([&] { TokenFile::open(directory / "absent.bin"); }),
            "H0340");
}

TEST(TokenFile, SaysWhatIsWrongWithAMegatronIndex) {
  TestDirectory directory;
  directory.write("m.bin", std::string(10, 0));
  std::string good = megatronIndex(8, 2);
  auto patched = [&](size_t at, const std::string &bytes) {
    std::string copy = good;
    return copy.replace(at, bytes.size(), bytes);
  };
  std::string bad[] = {
      "",
      "MMIDIDX",
      good.substr(0, 30),
      good.substr(0, good.size() - 1),
      good + "xyz",
      patched(9, bytesOf(uint64_t(2))),        // Version.
      patched(17, std::string(1, 7)),          // f32 tokens.
      patched(17, std::string(1, 99)),         // No such type.
      patched(18, bytesOf(~uint64_t(0))),      // Sequences.
      patched(26, bytesOf(uint64_t(1) << 61)), // Documents.
      patched(34, bytesOf(int32_t(-1))),       // Length.
      patched(34, bytesOf(int32_t(3))),        // Past the end.
      patched(42, bytesOf(int64_t(-2))),       // Offset.
      patched(42, bytesOf(INT64_MAX)),
  };
  for (const std::string &bytes : bad) {
    directory.write("m.idx", bytes);
    EXPECT_EQ(codeOf([&] { TokenFile::open(directory / "m"); }), "H0344");
  }
  directory.write("alone.idx", good);
  EXPECT_EQ(codeOf([&] { TokenFile::open(directory / "alone.idx"); }), "H0344");
}

TEST(TokenFile, SaysWhenTokensDoNotFitOrAreTooFew) {
  TestDirectory directory;
  TokenFile file = TokenFile::open(
      directory.write("a.bin", wordsOf<uint16_t>({1, 2, 9, 3})));
  int32_t out[4];
  file.read(0, 2, 9, out);
  Diagnostic diagnostic = diagnosticOf([&] { file.read(1, 3, 9, out); });
  EXPECT_EQ(diagnostic.code, "H0346");
  EXPECT_EQ(diagnostic.message,
            "token 2 is 9, but the vocabulary has 9 tokens; it stands at byte "
            "4 of the file");
  file.requireSize(4, "a batch");
  EXPECT_EQ(codeOf([&] { file.requireSize(5, "a batch"); }), "H0347");
}

TEST(TokenFile, WritesWhatItReads) {
  TestDirectory directory;
  for (int64_t vocab : {65536, 65537}) {
    std::string path = directory / "out.bin";
    int32_t first[2] = {1, 65535}, second[1] = {3};
    TokenWriter writer(path, vocab);
    writer.append(first, 2);
    EXPECT_FALSE(vocab == 65536 && pathExists(path));
    writer.append(second, 1);
    EXPECT_EQ(writer.finish(), 3);
    TokenFile file = TokenFile::open(path);
    EXPECT_EQ(file.format(), vocab == 65536 ? TokenFile::Format::LlmC16
                                            : TokenFile::Format::LlmC32);
    EXPECT_EQ(allOf(file, vocab), (std::vector<int32_t>{1, 65535, 3}));
  }
}

TEST(DataPrepare, SplitsOffTheEnd) {
  TestDirectory directory;
  std::string one = directory.write("1.txt", "abcdefg");
  std::string two = directory.write("2.txt", "hij");
  PrepareResult result =
      prepareTokens({{one, two}, "bytes", directory / "x.bin", 0.3});
  EXPECT_EQ(result.vocab, 256);
  EXPECT_EQ(result.trainTokens, 7);
  EXPECT_EQ(result.valTokens, 3);
  EXPECT_EQ(result.valFile, directory / "x.val.bin");
  EXPECT_EQ(allOf(TokenFile::open(result.valFile), 256),
            (std::vector<int32_t>{'h', 'i', 'j'}));
  EXPECT_EQ(TokenFile::open(result.trainFile).at(6), 'g');
  EXPECT_EQ(listDirectory(directory.path(), "H0301").size(), 4u);
  EXPECT_EQ(codeOf([&] { prepareTokens({{}, "bytes", "x", 0}); }), "H0180");
  std::string empty = directory.write("empty.txt", "");
  EXPECT_EQ(codeOf([&] {
              prepareTokens({{empty, empty}, "bytes", directory / "z", 0});
            }),
            "H0180");
  EXPECT_FALSE(pathExists(directory / "z"));
  EXPECT_EQ(codeOf([&] {
              prepareTokens({{one}, "bytes", "x", 1.0});
            }),
            "H0180");
  EXPECT_EQ(codeOf([&] {
              prepareTokens({{one}, "nothing", "x", 0});
            }),
            "H0350");
  EXPECT_EQ(codeOf([&] {
              prepareTokens({{directory / "no"}, "bytes", directory / "y", 0});
            }),
            "H0340");
}

TEST(DataCheck, CountsAndMeasures) {
  TestDirectory directory;
  std::string text;
  for (int i = 0; i < 300000; ++i)
    text += "ab"[i & 1];
  TokenStatistics found = checkTokens(directory.write("a.txt", text), 256);
  EXPECT_EQ(found.tokens, 300000);
  EXPECT_EQ(found.maximum, 'b');
  EXPECT_EQ(found.distinct, 2);
  EXPECT_NEAR(found.unigramEntropy, std::log(2.0), 1e-9);
  EXPECT_NEAR(found.bigramEntropy, 0, 1e-9);
  std::string wide = directory.write(
      "w.bin", llmcHeader(20240801, 7, 3) +
                   wordsOf<uint32_t>({1, 2000000000, 2000000000}));
  found = checkTokens(wide, 0);
  EXPECT_EQ(found.maximum, 2000000000);
  EXPECT_EQ(found.distinct, 2);
  EXPECT_EQ(codeOf([&] { checkTokens(wide, 128256); }), "H0346");
}
