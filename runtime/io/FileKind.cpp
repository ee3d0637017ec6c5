//===- FileKind.cpp - Recognize files by their bytes ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Heuristics on the first bytes of a file: magic numbers, share of control
// characters, values of integers.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/FileKind.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"
#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::io;

//===----------------------------------------------------------------------===//
// Magic numbers
//===----------------------------------------------------------------------===//

namespace {

/// Bytes at a fixed offset that identify a format.
struct Magic {
  std::string bytes;
  const char *name;
  const char *help = "";
  int64_t offset = 0;
};

} // namespace

static const std::vector<Magic> &magics() {
  using namespace std::string_literals;
  static const char *const unpack = "unpack it first";
  static const char *const records =
      "write its texts into a file of JSON lines or a text first";
  static const std::vector<Magic> all = {
      {"\x1F\x8B\x08"s, "a gzip archive", unpack},
      {"1AY&SY"s, "a bzip2 archive", unpack, 4},
      {"\xFD"s + "7zXZ\0"s, "an xz archive", unpack},
      {"\x28\xB5\x2F\xFD"s, "a zstd archive", unpack},
      {"\x04\x22\x4D\x18"s, "an lz4 archive", unpack},
      {"7z\xBC\xAF\x27\x1C"s, "a 7z archive", unpack},
      {"PK\x03\x04"s, "a zip archive or a PyTorch pickle"},
      {"ustar"s, "a tar archive", unpack, 257},
      {"\x93NUMPY"s, "a NumPy array",
       "write the bare numbers: np.load(FILE).tofile(OTHER)"},
      {"PAR1"s, "a Parquet file", records},
      {"ARROW1\0"s, "an Arrow file", records},
      {"SQLite format 3\0"s, "an SQLite database", records},
      {"\x89HDF\r\n"s, "an HDF5 file", records},
      {"\x7F"s + "ELF"s, "a program or library (ELF)"},
      {"GGUF"s, "a model in GGUF"},
      {"%PDF-"s, "a PDF document", "extract its text first"},
      {"\x89PNG\r\n"s, "a PNG image"},
      {"\xFF\xD8\xFF\xE0"s, "a JPEG image"},
      {"\xFF\xFE"s, "a text in UTF-16",
       "convert it first: iconv -f UTF-16 -t UTF-8"},
      {"\xFE\xFF"s, "a text in UTF-16",
       "convert it first: iconv -f UTF-16 -t UTF-8"},
      {"version https://git-lfs.github.com/spec/"s,
       "a pointer of Git LFS, not the file itself",
       "fetch the file: git lfs pull"}};
  return all;
}

/// Recognizes files of llm.c that hold no tokens; all have a header of 1024
/// bytes.
static const char *llmcKind(const MappedFile &file) {
  int32_t magic = 0;
  if (file.size() < 1024)
    return "";
  std::memcpy(&magic, file.data(), sizeof magic);
  switch (magic) {
  case 20240326:
    return "a model of llm.c";
  case 20240328:
    return "a tokenizer of llm.c";
  case 20240522:
    return "a multiple-choice evaluation of llm.c";
  case 20240527:
    return "an optimizer state of llm.c";
  }
  return "";
}

/// Recognizes a safetensors file: the size of a JSON header, then the header.
static bool isSafetensors(const MappedFile &file) {
  uint64_t size = 0;
  if (file.size() < 16)
    return false;
  std::memcpy(&size, file.data(), sizeof size);
  return size >= 2 && size <= uint64_t(file.size()) - 8 &&
         std::memcmp(file.data() + 8, "{\"", 2) == 0;
}

ForeignKind io::foreignKindOf(const MappedFile &file) {
  for (const Magic &magic : magics()) {
    int64_t size = magic.bytes.size();
    if (file.size() >= magic.offset + size &&
        std::memcmp(file.data() + magic.offset, magic.bytes.data(), size) == 0)
      return {magic.name, magic.help};
  }
  if (isSafetensors(file))
    return {"a safetensors file", ""};
  return {llmcKind(file), ""};
}

//===----------------------------------------------------------------------===//
// Texts
//===----------------------------------------------------------------------===//

/// Returns the bytes that are examined: the beginning of the file.
static std::string_view sampleOf(const MappedFile &file) {
  constexpr int64_t sampleBytes = 1 << 16;
  return {reinterpret_cast<const char *>(file.data()),
          size_t(std::min(file.size(), sampleBytes))};
}

bool io::hasControlCharacters(const MappedFile &file) {
  std::string_view sample = sampleOf(file);
  // Backspace, tab, line ends, form feed and escape do not count, because text
  // recorded from a terminal contains them.
  auto isControl = [](unsigned char byte) {
    return (byte < 0x20 && (byte < 0x08 || byte > 0x0D) && byte != 0x1B) ||
           byte == 0x7F;
  };
  int64_t controls = std::count_if(sample.begin(), sample.end(), isControl);
  // Accept one control character in 1000 bytes, since a text corpus may have a
  // few. Among random bytes one in ten is a control character.
  return controls * 1000 > int64_t(sample.size());
}

bool io::isText(const MappedFile &file) {
  // A file of this size without control characters is text: a file of token ids
  // would have zeros or other control characters among so many bytes.
  constexpr int64_t longEnough = 4096;
  if (file.size() == 0 || hasControlCharacters(file))
    return false;
  if (file.size() >= longEnough || file.size() % 2 != 0)
    return true;
  std::string text(sampleOf(file));
  int64_t ascii = std::count_if(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x80;
  });
  return unicode::isValid(text) || ascii * 4 >= int64_t(text.size()) * 3;
}

bool io::isJsonLines(const MappedFile &file) {
  std::string_view rest(reinterpret_cast<const char *>(file.data()),
                        size_t(file.size()));
  // The UTF-8 byte order mark.
  if (rest.substr(0, 3) == "\xEF\xBB\xBF")
    rest.remove_prefix(3);
  int64_t found = 0;
  while (!rest.empty() && found < 2) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos)
      continue;
    if (line[first] != '{' || !nlohmann::json::accept(line))
      return false;
    ++found;
  }
  return found > 0;
}

//===----------------------------------------------------------------------===//
// Width of integers
//===----------------------------------------------------------------------===//

namespace {

/// Counts the values of a file's first 16-bit words. Words whose indices are
/// equal modulo 4 are counted together, because a token has 1, 2 or 4 words.
struct WordCounts {
  WordCounts(const MappedFile &file, int64_t limit);
  /// Whether all words whose index modulo 4 is `place` are at most `limit`
  /// (allSmall), or are 0 (allZero).
  bool allSmall(int place) const { return small[place] == all[place]; }
  bool allZero(int place) const { return zero[place] == all[place]; }
  /// Of the words whose index modulo 4 is `one` or `other`, returns the
  /// fraction that is at most `limit`.
  double shareSmall(int one, int other) const {
    return double(small[one] + small[other]) / double(all[one] + all[other]);
  }

  std::array<int64_t, 4> all{}, small{}, zero{};
};

} // namespace

WordCounts::WordCounts(const MappedFile &file, int64_t limit) {
  constexpr int64_t sampleWords = 1 << 19;
  int64_t words = std::min(file.size() / 2, sampleWords);
  for (int64_t i = 0; i < words; ++i) {
    uint16_t word = 0;
    std::memcpy(&word, file.data() + 2 * i, sizeof word);
    ++all[i % 4];
    small[i % 4] += word <= limit;
    zero[i % 4] += word == 0;
  }
}

NumberWidth io::widthOfNumbers(const MappedFile &file, int64_t vocab) {
  constexpr int64_t fewestWords = 16;
  // The limit for the upper half of a token id. If the vocabulary is unknown,
  // the limit is 3, because no known vocabulary has 4 x 65536 tokens or more.
  int64_t limit = vocab > 0 ? (vocab - 1) >> 16 : 3;
  if (file.size() < 2 * fewestWords)
    return {};
  WordCounts words(file, limit);
  // A 16-bit word is small if it is at most `limit`. If all words of the file
  // are small, each is a 16-bit id: if the ids were wider, the lowest words of
  // most ids would exceed `limit`.
  bool isWide64 = words.allSmall(1) && words.allZero(2) && words.allZero(3) &&
                  !words.allSmall(0);
  bool isWide32 =
      words.allSmall(1) && words.allSmall(3) && words.shareSmall(0, 2) < 1;
  if (isWide64 && file.size() % 8 == 0)
    return {8, ""};
  if (isWide32 && file.size() % 4 == 0)
    return {4, ""};
  std::string pattern =
      "every second 16-bit word of the file is " +
      (limit == 0 ? std::string("0") : "at most " + std::to_string(limit)) +
      ", as where tokens have 32 or 64 bits, but ";
  if (isWide32)
    return {2, pattern + "its size of " + std::to_string(file.size()) +
                   " bytes is no multiple of 4"};
  double lower = words.shareSmall(0, 2), upper = words.shareSmall(1, 3);
  if (std::max(lower, upper) >= 0.9 && std::min(lower, upper) <= 0.5)
    return {2, pattern + "not all of them are"};
  return {};
}
