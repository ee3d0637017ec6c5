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
            "token 3 is -1, but the vocabulary has 80000 tokens; it is at "
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
  EXPECT_EQ(TokenFile::open(file).format(), TokenFile::Format::Headerless);
  EXPECT_EQ(TokenFile::open(file).formatName(), "without header, 16 bits");
  EXPECT_EQ(allOf(TokenFile::open(file), 50257),
            (std::vector<int32_t>{50256, 7, 7}));
  std::string text = directory.write("a.txt", "Hi\xFF");
  EXPECT_EQ(allOf(TokenFile::open(text, 256), 256),
            (std::vector<int32_t>{'H', 'i', 255}));
  EXPECT_EQ(codeOf([&] { TokenFile::open(text, 255); }), "H0345");
  EXPECT_EQ(codeOf([&] { TokenFile::open(text, 50257); }), "H0345");
}

TEST(TokenFile, IsTheSameUnderEveryName) {
  TestDirectory directory;
  std::string latin1 = "na\xEFve caf\xE9s",
              chinese = "\xE4\xB8\x96\xE7\x95\x8C";
  struct {
    std::string bytes;
    TokenFile::Format format;
  } cases[] = {
      {llmcHeader(20240520, 1, 3) + wordsOf<uint16_t>({1, 2, 3}),
       TokenFile::Format::LlmC16},
      {wordsOf<uint16_t>({50256, 7, 7, 300}), TokenFile::Format::Headerless},
      {"The cat.\n", TokenFile::Format::Text},
      {latin1, TokenFile::Format::Text},
      {chinese + chinese, TokenFile::Format::Text},
      {"{\n \"a\": 1\n}\n", TokenFile::Format::Text},
  };
  for (const auto &each : cases)
    for (const char *name :
         {"a.txt", "a.bin", "a", "a.json", "a.jsonl", "a.gz"})
      EXPECT_EQ(TokenFile::open(directory.write(name, each.bytes)).format(),
                each.format)
          << name << " " << each.bytes;
}

/// Numbers below `vocab`, as scripts write them without a header.
template <typename T> static std::string numbers(int64_t vocab, int64_t count) {
  std::string bytes;
  uint32_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    bytes += bytesOf(T((state >> 8) % uint64_t(vocab)));
  }
  return bytes;
}

TEST(TokenFile, ReadsBareNumbersByTheirWidth) {
  TestDirectory directory;
  auto widthOf = [&](const std::string &bytes, int64_t vocab) {
    TokenFile file = TokenFile::open(directory.write("n.bin", bytes), vocab);
    EXPECT_EQ(file.format(), TokenFile::Format::Headerless);
    EXPECT_EQ(file.remark().empty(), file.tokenBytes() == 2);
    EXPECT_EQ(file.scan(0, file.size(), vocab ? vocab : 300000).firstBad, -1);
    return file.tokenBytes();
  };
  for (int64_t vocab : {97, 300, 50257, 128256, 262144})
    for (bool isKnown : {false, true}) {
      int64_t given = isKnown ? vocab : 0;
      EXPECT_EQ(widthOf(numbers<uint32_t>(vocab, 1000), given), 4) << vocab;
      EXPECT_EQ(widthOf(numbers<int64_t>(vocab, 1000), given), 8) << vocab;
      if (vocab <= 65536)
        EXPECT_EQ(widthOf(numbers<uint16_t>(vocab, 1001), given), 2) << vocab;
    }
  // Of vocabularies so small that a token looks like the half of one.
  for (int64_t vocab : {2, 3, 10, 16})
    EXPECT_EQ(widthOf(numbers<uint16_t>(vocab, 1000), vocab), 2) << vocab;
  EXPECT_EQ(widthOf(std::string(400, '\0'), 97), 2);

  std::string cut = numbers<uint32_t>(97, 1000) + "ab";
  EXPECT_EQ(codeOf([&] { widthOf(cut, 97); }), "H0338");
  std::string damaged = numbers<uint32_t>(97, 1000);
  damaged[402] = 1;
  EXPECT_EQ(codeOf([&] { widthOf(damaged, 97); }), "H0338");
  EXPECT_EQ(codeOf([&] { widthOf(numbers<uint16_t>(50257, 1000), 70000); }),
            "H0338");
}

TEST(TokenFile, ReadsBareNumbersOfATypeThatIsGiven) {
  TestDirectory directory;
  std::string path =
      directory.write("n.bin", wordsOf<uint32_t>({70000, 5, 0, 1}));
  EXPECT_EQ(allOf(TokenFile::open(path + ":u32", 70001), 70001),
            (std::vector<int32_t>{70000, 5, 0, 1}));
  EXPECT_EQ(allOf(TokenFile::open(path + ":u16"), 70001),
            (std::vector<int32_t>{4464, 1, 5, 0, 0, 0, 1, 0}));
  EXPECT_EQ(allOf(TokenFile::open(path + ":u8"), 256).size(), 16u);
  std::string negative = directory.write("m.bin", wordsOf<int32_t>({3, -1}));
  EXPECT_EQ(TokenFile::open(negative + ":i32").at(1), -1);
  EXPECT_EQ(TokenFile::open(negative + ":u32").at(1), 0xFFFFFFFFll);
  // A name with a colon is a name.
  std::string odd = directory.write("n.bin:u16", wordsOf<uint16_t>({9}));
  EXPECT_EQ(allOf(TokenFile::open(odd), 10), (std::vector<int32_t>{9}));
  EXPECT_EQ(TokenSource::parse(path + ":u32").path, path);

  EXPECT_EQ(codeOf([&] { TokenFile::open(path + ":f32"); }), "H0159");
  EXPECT_EQ(codeOf([&] { TokenFile::open(negative + ":u24"); }), "H0159");
  EXPECT_EQ(codeOf([&] { TokenFile::open(directory / "absent:u32"); }),
            "H0340");
  std::string text = directory.write("t.bin", "abcdefg");
  EXPECT_EQ(codeOf([&] { TokenFile::open(text + ":u32"); }), "H0343");
  std::string headed = directory.write("h.bin", llmcHeader(20240520, 1, 2) +
                                                    wordsOf<uint16_t>({1, 2}));
  EXPECT_EQ(codeOf([&] { TokenFile::open(headed + ":u16"); }), "H0159");
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
      {"none.bin", llmcHeader(20240520, 1, 0), "H0343"},
      {"lines.txt", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n", "H0348"},
      {"x.bin", "{}", "H0348"},
      {"a.txt", "\x1F\x8B\x08 more", "H0348"},
      {"b.txt",
       "\x7F"
       "ELF more",
       "H0348"},
      {"c.txt", "PAR1 more", "H0348"},
      {"d.txt", "\x28\xB5\x2F\xFD more", "H0348"},
      {"e.txt",
       std::string("\xFF\xFE"
                   "a\0b\0",
                   6),
       "H0348"},
      {"f.txt", "version https://git-lfs.github.com/spec/v1\n", "H0379"},
      {"g.txt", std::string("\x02\0\0\0\0\0\0\0{\"}      ", 17), "H0348"},
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
            "token 2 is 9, but the vocabulary has 9 tokens; it is at byte "
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

/// The text of a token file of bytes.
static std::string textOf(const std::string &path) {
  std::vector<int32_t> tokens = allOf(TokenFile::open(path), 256);
  return {tokens.begin(), tokens.end()};
}

TEST(DataPrepare, SplitsOffTheEnd) {
  TestDirectory directory;
  std::string one = directory.write("1.txt", "abcdefghij");
  PrepareResult result =
      prepareTokens({{one}, "bytes", directory / "x.bin", 0.3});
  EXPECT_EQ(result.vocab, 256);
  EXPECT_EQ(result.trainTokens, 7);
  EXPECT_EQ(result.valTokens, 3);
  EXPECT_EQ(result.valFile, directory / "x.val.bin");
  EXPECT_EQ(textOf(result.valFile), "hij");
  EXPECT_EQ(textOf(result.trainFile), "abcdefg");
  EXPECT_EQ(listDirectory(directory.path(), "H0301").size(), 3u);
}

TEST(DataPrepare, SaysWhatIsWrong) {
  TestDirectory directory;
  std::string one = directory.write("1.txt", "abcdefghij");
  std::string empty = directory.write("empty.txt", "");
  auto code = [&](std::vector<std::string> inputs, double fraction = 0,
                  const char *tokenizer = "bytes") {
    std::string output = directory / "z.bin";
    std::string code = codeOf([&] {
      prepareTokens({std::move(inputs), tokenizer, output, fraction});
    });
    EXPECT_FALSE(pathExists(output));
    EXPECT_FALSE(pathExists(directory / "z.val.bin"));
    return code;
  };
  EXPECT_EQ(code({}), "H0180");
  EXPECT_EQ(code({empty, empty}), "H0180");
  EXPECT_EQ(code({one}, 1.0), "H0180");
  // No token for one of the two.
  EXPECT_EQ(code({one}, 0.01), "H0180");
  EXPECT_EQ(code({one}, 0.99), "H0180");
  EXPECT_EQ(code({one}, 0, "nothing"), "H0350");
  EXPECT_EQ(code({directory / "no"}), "H0340");
  for (const std::string &bytes :
       {std::string("\x1F\x8B\x08 more"), "\x7F" + std::string("ELF"),
        std::string(100, '\1'), std::string("tokens\0\0\0", 9)})
    for (const char *name : {"b.txt", "b"})
      EXPECT_EQ(code({one, directory.write(name, bytes)}), "H0348") << bytes;
}

TEST(DataPrepare, DividesDocuments) {
  TestDirectory directory;
  std::string one = directory.write("1.txt", "abc\n"),
              two = directory.write("2", "def"),
              empty = directory.write("3", "");
  PrepareResult result =
      prepareTokens({{one, empty, two}, "bytes", directory / "x.bin", 0});
  EXPECT_EQ(textOf(result.trainFile), "abc\n\ndef");
  EXPECT_EQ(result.documents, 2);
  result = prepareTokens({{two}, "bytes", directory / "x.bin", 0});
  EXPECT_EQ(textOf(result.trainFile), "def");
}

TEST(DataPrepare, TakesAShareOfEachFile) {
  TestDirectory directory;
  std::string one = directory.write("1", "abcdefghij"),
              two = directory.write("2", "klmnopqrst"),
              three = directory.write("3", "u");
  PrepareResult result =
      prepareTokens({{one, two, three}, "bytes", directory / "x.bin", 0.2});
  EXPECT_EQ(textOf(result.trainFile), "abcdefgh\nklmnopqr\nu");
  EXPECT_EQ(textOf(result.valFile), "ij\nst");
  EXPECT_EQ(result.trainTokens, 19);
  EXPECT_EQ(result.valTokens, 5);
  // What each file rounds away adds up.
  std::vector<std::string> many;
  for (int i = 0; i < 20; ++i)
    many.push_back(directory.write("m" + std::to_string(i), "ab"));
  result = prepareTokens({many, "bytes", directory / "x.bin", 0.1});
  EXPECT_EQ(textOf(result.valFile), "b\nb\nb\nb");
}

TEST(DataPrepare, ReadsARecordALine) {
  TestDirectory directory;
  std::string lines = "{\"text\": \"a\\nb\", \"id\": 1}\n\n"
                      "{\"id\": 2, \"text\": \"\"}\r\n{\"text\": \"\\u00e9\"}";
  // The content decides, with a byte order mark as well.
  for (const std::string &bytes : {lines, "\xEF\xBB\xBF" + lines})
    for (const char *name : {"r.jsonl", "r.txt"}) {
      PrepareResult result = prepareTokens(
          {{directory.write(name, bytes)}, "bytes", directory / "x.bin", 0});
      EXPECT_EQ(textOf(result.trainFile), "a\nb\n\xC3\xA9");
      EXPECT_EQ(result.documents, 2);
    }
  auto prepare = [&](const std::string &bytes, const char *field,
                     const char *format) {
    PrepareOptions options = {
        {directory.write("r", bytes)}, "bytes", directory / "x.bin", 0};
    options.field = field;
    options.format = format;
    return textOf(prepareTokens(options).trainFile);
  };
  EXPECT_EQ(prepare("{\"body\": \"a\"}\n{\"body\": \"b\"}", "body", "auto"),
            "a\nb");
  EXPECT_EQ(prepare("{\"text\": 1}", "text", "text"), "{\"text\": 1}");
  EXPECT_EQ(prepare("{ \"a\": 1\n}", "text", "auto"), "{ \"a\": 1\n}");
  struct {
    const char *bytes, *message;
  } bad[] = {
      {"{\"text\": \"a\"}\n{\"body\": \"b\"}", "the record has no \"text\""},
      {"{\"text\": \"a\"}\n{\"text\": 3}",
       "\"text\" is the number 3, not a text"},
      {"{\"text\": \"a\"}\n{\"text\": null}", "null"},
      {"{\"text\": \"a\"}\n[1]", "the record has no \"text\""},
      {"{\"text\": \"a\"}\n{\"text\": \"b", ""}};
  for (const auto &each : bad) {
    Diagnostic diagnostic =
        diagnosticOf([&] { prepare(each.bytes, "text", "jsonl"); });
    EXPECT_EQ(diagnostic.code, "H0339");
    EXPECT_EQ(diagnostic.location.line, 2);
    EXPECT_NE(diagnostic.message.find(each.message), std::string::npos)
        << diagnostic.message;
  }
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
