//===- TokenFile.cpp - Read files of tokens ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recognizes and reads the formats of token files: llm.c, Megatron, integers
// without header, text.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/TokenFile.h"
#include "heddle/runtime/io/Affix.h"
#include "heddle/runtime/io/FileKind.h"
#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>

using namespace heddle;
using namespace heddle::io;

static constexpr int64_t llmcHeaderBytes = 256 * 4;
/// The largest vocabulary, special tokens included, for which a text is read
/// with one token per byte. A larger one means that the model uses another
/// tokenizer.
static constexpr int64_t maxByteVocab = 512;
static const char *const prepareHelp =
    "make a token file: heddle data prepare TEXT --tokenizer bytes|DIR -o "
    "FILE.bin";

template <typename T> static T load(const uint8_t *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

static bool beginsWith(const MappedFile &file, const std::string &magic) {
  return file.size() >= static_cast<int64_t>(magic.size()) &&
         std::memcmp(file.data(), magic.data(), magic.size()) == 0;
}

//===----------------------------------------------------------------------===//
// Parsing of FILE:TYPE
//===----------------------------------------------------------------------===//

static std::string typeName(TokenType type) {
  return (type.isSigned ? "i" : "u") + std::to_string(type.width * 8);
}

static const std::vector<TokenType> &tokenTypes() {
  static const std::vector<TokenType> all = {{1, false}, {2, false}, {4, false},
                                             {8, false}, {1, true},  {2, true},
                                             {4, true},  {8, true}};
  return all;
}

static bool isThere(const std::string &path) {
  return pathExists(path) || pathExists(path + ".idx");
}

TokenSource TokenSource::parse(const std::string &text) {
  size_t colon = text.rfind(':');
  if (colon == std::string::npos || isThere(text) ||
      !isThere(text.substr(0, colon)))
    return {text, {}};
  std::string path = text.substr(0, colon), name = text.substr(colon + 1);
  for (const TokenType &type : tokenTypes())
    if (name == typeName(type))
      return {path, type};
  fail("H0159", text + ": tokens have no type \"" + name + "\"",
       "write the type of bare numbers as " + path +
           ":u16 (or u8, u32, u64, i8, i16, i32, i64), or leave it out");
}

//===----------------------------------------------------------------------===//
// Recognition of formats
//===----------------------------------------------------------------------===//

static bool isLlmC(const MappedFile &file) {
  int32_t magic = file.size() >= 4 ? load<int32_t>(file.data()) : 0;
  return magic == 20240520 || magic == 20240801;
}

static const std::string megatronMagic("MMIDIDX\0\0", 9);

TokenFile TokenFile::open(const std::string &text, int64_t vocab) {
  TokenSource source = TokenSource::parse(text);
  TokenFile tokens;
  tokens.filePath = source.path;
  if (!pathExists(source.path) && pathExists(source.path + ".idx")) {
    tokens.openMegatron(source.path);
    return tokens;
  }
  tokens.file = MappedFile::open(source.path, "H0340");
  if (source.type.width == 0) {
    tokens.openByContent(vocab);
    return tokens;
  }
  if (isLlmC(*tokens.file) || beginsWith(*tokens.file, megatronMagic))
    fail("H0159",
         text + ": the file has a header that says how wide its tokens are",
         "leave out the type: " + source.path);
  tokens.openHeaderless(source.type, vocab);
  return tokens;
}

void TokenFile::openByContent(int64_t vocab) {
  SourceLocation where = {filePath, 0, 0};
  std::string stem = filePath.substr(0, filePath.rfind('.'));
  bool isIndex = beginsWith(*file, megatronMagic) || endsWith(filePath, ".idx");
  if (isLlmC(*file))
    return openLlmC();
  // Megatron's .bin file has no header: it is recognized by the .idx file
  // beside it.
  if (isIndex || (endsWith(filePath, ".bin") && pathExists(stem + ".idx")))
    return openMegatron(stem);
  if (file->size() == 0)
    fail("H0343", "the file is empty", prepareHelp, where);
  if (ForeignKind kind = foreignKindOf(*file); !kind.name.empty())
    fail("H0348", filePath + " is " + kind.name + ", not a token file",
         kind.help.empty() ? prepareHelp : kind.help, where);
  if (!isText(*file))
    return openHeaderless({}, vocab);
  if (isJsonLines(*file))
    fail("H0348", filePath + " has records of JSON, not tokens", prepareHelp,
         where);
  openText(vocab);
}

void TokenFile::openText(int64_t vocab) {
  if (vocab != 0 && (vocab < 256 || vocab > maxByteVocab))
    fail("H0345",
         "plain text is read as bytes, but the model's vocabulary has " +
             std::to_string(vocab) + " tokens",
         prepareHelp, {filePath, 0, 0});
  fileFormat = Format::Text;
  width = 1;
  count = file->size();
  ranges = {{0, 0, count}};
}

void TokenFile::openHeaderless(TokenType type, int64_t vocab) {
  constexpr int64_t most16 = 65536;
  SourceLocation where = {filePath, 0, 0};
  if (type.width == 0) {
    NumberWidth found = widthOfNumbers(*file, vocab);
    if (!found.doubt.empty())
      fail("H0338", found.doubt,
           "say how wide tokens are, as " + filePath + ":u16 or " + filePath +
               ":u32, or " + prepareHelp,
           where);
    type.width = found.bytes;
    isGuessed = found.bytes != 2;
    if (vocab > most16 && !isGuessed)
      fail("H0338",
           "the file has no header and does not look like 32-bit tokens, but "
           "16 bits cannot hold the " +
               std::to_string(vocab) + " tokens of the vocabulary",
           "make it again with 32 bits for each token, or write " + filePath +
               ":u16 if its tokens are all below 65536",
           where);
  }
  fileFormat = Format::Headerless;
  width = type.width;
  isSigned = type.isSigned;
  if (file->size() == 0 || file->size() % width != 0)
    fail("H0343",
         "this token file without header holds " + std::to_string(width * 8) +
             " bits per token, but it has " + std::to_string(file->size()) +
             " bytes",
         prepareHelp, where);
  count = file->size() / width;
  ranges = {{0, 0, count}};
}

std::string TokenFile::formatName() const {
  switch (fileFormat) {
  case Format::LlmC16:
    return "llm.c, 16 bits";
  case Format::LlmC32:
    return "llm.c, 32 bits";
  case Format::Megatron:
    return "Megatron";
  case Format::Headerless:
    return "without header, " + std::to_string(width * 8) + " bits";
  case Format::Text:
    return "text as bytes";
  }
  return "";
}

std::string TokenFile::remark() const {
  return isGuessed ? filePath + " has no header: by its bytes, a token has " +
                         std::to_string(width * 8) + " bits (" + filePath +
                         ":u16 reads 16)"
                   : "";
}

//===----------------------------------------------------------------------===//
// llm.c
//===----------------------------------------------------------------------===//

void TokenFile::openLlmC() {
  SourceLocation where = {filePath, 0, 0};
  if (file->size() < llmcHeaderBytes)
    fail("H0342",
         "the file ends within its header of 1024 bytes: it has " +
             std::to_string(file->size()),
         "make it again", where);
  bool narrow = load<int32_t>(file->data()) == 20240520;
  int32_t version = load<int32_t>(file->data() + 4);
  if (version != (narrow ? 1 : 7))
    fail("H0341",
         "version " + std::to_string(version) + " of llm.c's format is not " +
             "known; expected " + (narrow ? "1" : "7"),
         prepareHelp, where);
  fileFormat = narrow ? Format::LlmC16 : Format::LlmC32;
  width = narrow ? 2 : 4;
  count = load<int32_t>(file->data() + 8);
  int64_t expected = llmcHeaderBytes + count * width;
  if (count < 0 || file->size() != expected)
    fail("H0342",
         "the header says " + std::to_string(count) + " tokens, which makes " +
             std::to_string(expected) + " bytes, but the file has " +
             std::to_string(file->size()),
         "the file is damaged or still being written: make it again", where);
  if (count == 0)
    fail("H0343", "the file has no tokens", prepareHelp, where);
  ranges = {{0, llmcHeaderBytes, count}};
}

//===----------------------------------------------------------------------===//
// Megatron
//===----------------------------------------------------------------------===//

namespace {

/// The index of a Megatron pair. Its arrays begin at byte 34, so they are
/// unaligned.
class MegatronIndex {
public:
  explicit MegatronIndex(const std::string &path)
      : file(MappedFile::open(path, "H0344")) {
    check();
  }
  int64_t sequences() const { return count; }
  int64_t length(int64_t i) const {
    return load<int32_t>(file->data() + headerBytes + 4 * i);
  }
  int64_t offset(int64_t i) const {
    return load<int64_t>(file->data() + headerBytes + 4 * count + 8 * i);
  }
  uint8_t dtype() const { return file->data()[17]; }
  [[noreturn]] void refuse(const std::string &message) const {
    fail("H0344", "damaged Megatron index: " + message,
         "make it again with Megatron's preprocess_data.py",
         {file->path(), 0, 0});
  }

private:
  static constexpr int64_t headerBytes = 34;
  void check() {
    if (!beginsWith(*file, megatronMagic))
      refuse("it does not begin with MMIDIDX");
    if (file->size() < headerBytes)
      refuse("it ends within its header");
    uint64_t version = load<uint64_t>(file->data() + 9);
    if (version != 1)
      refuse("version " + std::to_string(version) + " is not known");
    uint64_t claimed = load<uint64_t>(file->data() + 18);
    uint64_t documents = load<uint64_t>(file->data() + 26);
    uint64_t room = file->size() - headerBytes;
    if (claimed > room / 12 || documents > room / 8)
      refuse("it claims " + std::to_string(claimed) + " sequences and " +
             std::to_string(documents) + " document boundaries, too many for " +
             std::to_string(file->size()) + " bytes");
    uint64_t needed = claimed * 12 + documents * 8;
    if (room != needed && room != needed + claimed)
      refuse("it has " + std::to_string(file->size()) + " bytes instead of " +
             std::to_string(needed + headerBytes));
    count = static_cast<int64_t>(claimed);
  }
  std::shared_ptr<const MappedFile> file;
  int64_t count = 0;
};

} // namespace

void TokenFile::openMegatron(const std::string &prefix) {
  MegatronIndex index(prefix + ".idx");
  filePath = prefix + ".bin";
  file = MappedFile::open(filePath, "H0344");
  fileFormat = Format::Megatron;
  // The number of bytes of a token for each of Megatron's type codes. Codes 1
  // to 8 are u8, i8, i16, i32, i64, f64, f32 and u16. The number is 0 for
  // code 0, which is invalid, and for floats, which are not supported.
  static constexpr int64_t widths[] = {0, 1, 1, 2, 4, 8, 0, 0, 2};
  uint8_t code = index.dtype();
  if (code >= sizeof widths / sizeof widths[0] || widths[code] == 0)
    index.refuse("tokens of type code " + std::to_string(code));
  width = widths[code];
  isSigned = code >= 2 && code <= 5;
  for (int64_t i = 0; i < index.sequences(); ++i) {
    int64_t length = index.length(i), offset = index.offset(i);
    if (length < 0 || offset < 0 || offset > file->size() ||
        length > (file->size() - offset) / width)
      index.refuse("sequence " + std::to_string(i) + " of " +
                   std::to_string(length) + " tokens at byte " +
                   std::to_string(offset) + " leaves the file of " +
                   std::to_string(file->size()) + " bytes");
    bool follows =
        !ranges.empty() &&
        ranges.back().byteOffset + ranges.back().tokens * width == offset;
    if (follows)
      ranges.back().tokens += length;
    else if (length > 0)
      ranges.push_back({count, offset, length});
    count += length;
  }
  if (count == 0)
    index.refuse("it holds no tokens");
}

//===----------------------------------------------------------------------===//
// Access to tokens
//===----------------------------------------------------------------------===//

int64_t TokenFile::decode(const uint8_t *bytes) const {
  switch (width) {
  case 1:
    return isSigned ? int64_t(load<int8_t>(bytes)) : int64_t(*bytes);
  case 2:
    return isSigned ? int64_t(load<int16_t>(bytes))
                    : int64_t(load<uint16_t>(bytes));
  case 4:
    return isSigned ? int64_t(load<int32_t>(bytes))
                    : int64_t(load<uint32_t>(bytes));
  default:
    return load<int64_t>(bytes);
  }
}

const TokenFile::TokenRange &TokenFile::rangeOf(int64_t index) const {
  auto it = std::upper_bound(ranges.begin(), ranges.end(), index,
                             [](int64_t key, const TokenRange &range) {
                               return key < range.firstToken;
                             });
  return *std::prev(it);
}

int64_t TokenFile::at(int64_t index) const {
  assert(index >= 0 && index < count && "token outside of the file");
  const TokenRange &range = rangeOf(index);
  return decode(file->data() + range.byteOffset +
                (index - range.firstToken) * width);
}

void TokenFile::read(int64_t first, int64_t number, int64_t vocab,
                     int32_t *destination) const {
  assert(first >= 0 && first + number <= count && "tokens outside of the file");
  int64_t limit = std::min<int64_t>(
      vocab, int64_t(std::numeric_limits<int32_t>::max()) + 1);
  int64_t done = 0;
  while (done < number) {
    const TokenRange &range = rangeOf(first + done);
    int64_t within = first + done - range.firstToken;
    int64_t here = std::min(number - done, range.tokens - within);
    std::vector<uint8_t> bytes(here * width);
    file->read(range.byteOffset + within * width, here * width, bytes.data());
    for (int64_t i = 0; i < here; ++i) {
      int64_t token = decode(bytes.data() + i * width);
      if (token < 0 || token >= limit)
        failForeign(first + done + i, vocab);
      destination[done + i] = static_cast<int32_t>(token);
    }
    done += here;
  }
}

void TokenFile::failForeign(int64_t index, int64_t vocab) const {
  const TokenRange &range = rangeOf(index);
  int64_t byte = range.byteOffset + (index - range.firstToken) * width;
  fail("H0346",
       "token " + std::to_string(index) + " is " + std::to_string(at(index)) +
           ", but the vocabulary has " + std::to_string(vocab) +
           " tokens; it is at byte " + std::to_string(byte) + " of the file",
       "use the tokenizer that belongs to the model; `heddle data check FILE "
       "--vocab N` scans a whole file",
       {filePath, 0, 0});
}

/// Returns the largest token, read as unsigned: a negative token then exceeds
/// every vocabulary.
template <typename T> static T largest(const uint8_t *bytes, int64_t count) {
  T most = 0;
  for (int64_t i = 0; i < count; ++i)
    most = std::max(most, load<T>(bytes + i * sizeof(T)));
  return most;
}

static uint64_t largest(const uint8_t *bytes, int64_t count, int64_t width) {
  switch (width) {
  case 1:
    return largest<uint8_t>(bytes, count);
  case 2:
    return largest<uint16_t>(bytes, count);
  case 4:
    return largest<uint32_t>(bytes, count);
  default:
    return largest<uint64_t>(bytes, count);
  }
}

TokenFile::Scan TokenFile::scan(int64_t first, int64_t number,
                                int64_t vocab) const {
  assert(first >= 0 && first + number <= count && "tokens outside of the file");
  int64_t limit = std::min<int64_t>(
      vocab, int64_t(std::numeric_limits<int32_t>::max()) + 1);
  // Tokens are compared as unsigned numbers. A negative one has the highest bit
  // of its type set.
  uint64_t most = limit;
  if (isSigned)
    most = std::min(most, uint64_t(1) << (8 * width - 1));
  Scan result;
  // The hash of each range of tokens that is contiguous in the file. The hash
  // of these hashes is the result.
  std::vector<uint64_t> hashes;
  for (int64_t done = 0; done < number;) {
    const TokenRange &range = rangeOf(first + done);
    int64_t within = first + done - range.firstToken;
    int64_t here = std::min(number - done, range.tokens - within);
    const uint8_t *bytes = file->data() + range.byteOffset + within * width;
    if (result.firstBad < 0 && largest(bytes, here, width) >= most)
      for (int64_t i = 0; i < here && result.firstBad < 0; ++i) {
        int64_t token = decode(bytes + i * width);
        if (token < 0 || token >= limit)
          result.firstBad = first + done + i;
      }
    hashes.push_back(hashBytes(bytes, here * width));
    done += here;
  }
  result.hash = hashBytes(hashes.data(), hashes.size() * sizeof(uint64_t));
  return result;
}

void TokenFile::requireSize(int64_t needed, const std::string &what) const {
  if (count < needed)
    fail("H0347",
         "the file has " + std::to_string(count) + " tokens, but " + what +
             " needs " + std::to_string(needed),
         "use a longer file, or a smaller batch or sequence", {filePath, 0, 0});
}
