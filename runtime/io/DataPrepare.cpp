//===- DataPrepare.cpp - Making and checking token files --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/TokenFile.h"
#include "heddle/runtime/io/Tokenizer.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

using namespace heddle;
using namespace heddle::io;

static constexpr int64_t headerWords = 256;
/// Tokens and bytes that are handled at a time.
static constexpr int64_t blockTokens = int64_t(1) << 18;
static constexpr int64_t blockBytes = int64_t(1) << 20;

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

TokenWriter::TokenWriter(const std::string &path, int64_t vocab)
    : out(path), wide(vocab > 65536) {
  std::vector<int32_t> header(headerWords, 0);
  out.write(header.data(), headerWords * 4);
}

TokenWriter::~TokenWriter() = default;

void TokenWriter::append(const int32_t *tokens, int64_t number) {
  count += number;
  if (count > std::numeric_limits<int32_t>::max())
    fail("H0349", "llm.c's format holds at most 2147483647 tokens in one file",
         "split the text over several files");
  if (wide) {
    out.write(tokens, number * 4);
    return;
  }
  std::vector<uint16_t> narrow(tokens, tokens + number);
  out.write(narrow.data(), number * 2);
}

int64_t TokenWriter::complete() {
  int32_t header[3] = {wide ? 20240801 : 20240520, wide ? 7 : 1,
                       static_cast<int32_t>(count)};
  out.rewrite(0, header, sizeof header);
  return count;
}

int64_t TokenWriter::finish() {
  complete();
  out.commit();
  return count;
}

//===----------------------------------------------------------------------===//
// data check
//===----------------------------------------------------------------------===//

/// Entropy of the counts, in nats.
template <typename Counts>
static double entropyOf(const Counts &counts, int64_t total) {
  double sum = 0;
  for (int64_t n : counts)
    if (n > 0)
      sum += static_cast<double>(n) * std::log(static_cast<double>(n));
  return std::log(static_cast<double>(total)) - sum / total;
}

/// Entropy of a token given the one before it.
static double bigramEntropy(const TokenFile &file, int64_t vocab) {
  std::vector<int32_t> pairs(vocab * vocab, 0), block(blockTokens);
  std::vector<int64_t> before(vocab, 0);
  int64_t last = -1;
  for (int64_t first = 0; first < file.size(); first += blockTokens) {
    int64_t number = std::min(blockTokens, file.size() - first);
    file.read(first, number, vocab, block.data());
    for (int64_t i = 0; i < number; ++i) {
      if (last >= 0) {
        ++pairs[last * vocab + block[i]];
        ++before[last];
      }
      last = block[i];
    }
  }
  int64_t total = file.size() - 1;
  return total > 0 ? entropyOf(pairs, total) - entropyOf(before, total) : 0;
}

TokenStatistics io::checkTokens(const std::string &path, int64_t vocab) {
  constexpr int64_t denseTokens = int64_t(1) << 20;
  constexpr int64_t maxBigramVocab = 4096;
  TokenFile file = TokenFile::open(path, vocab);
  int64_t limit =
      vocab > 0 ? vocab : int64_t(std::numeric_limits<int32_t>::max()) + 1;
  std::vector<int64_t> counts;
  std::unordered_map<int32_t, int64_t> largeCounts;
  std::vector<int32_t> block(blockTokens);
  TokenStatistics result;
  for (int64_t first = 0; first < file.size(); first += blockTokens) {
    int64_t number = std::min(blockTokens, file.size() - first);
    file.read(first, number, limit, block.data());
    int64_t largest = *std::max_element(block.begin(), block.begin() + number);
    result.maximum = std::max(result.maximum, largest);
    counts.resize(std::min(result.maximum + 1, denseTokens), 0);
    for (int64_t i = 0; i < number; ++i)
      ++(block[i] < denseTokens ? counts[block[i]] : largeCounts[block[i]]);
  }
  for (const auto &[token, number] : largeCounts)
    counts.push_back(number);
  result.format = file.formatName();
  result.tokens = file.size();
  result.distinct =
      std::count_if(counts.begin(), counts.end(), [](int64_t n) { return n; });
  result.unigramEntropy = file.size() ? entropyOf(counts, file.size()) : 0;
  if (file.size() && result.maximum < maxBigramVocab)
    result.bigramEntropy = bigramEntropy(file, result.maximum + 1);
  return result;
}

//===----------------------------------------------------------------------===//
// data prepare
//===----------------------------------------------------------------------===//

/// The largest cut in [1, size] at which a text can be divided such that the
/// parts encode as the whole does: before a space that stands between two
/// letters. The whole size when there is none.
static int64_t findCut(const uint8_t *text, int64_t size) {
  auto isLetter = [](uint8_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  for (int64_t i = size - 2; i > 0; --i)
    if (text[i] == ' ' && isLetter(text[i - 1]) && isLetter(text[i + 1]))
      return i;
  return size;
}

/// The bytes of text.
static int64_t encodeFile(const std::string &path, const Tokenizer &tokenizer,
                          TokenWriter &out) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path, "H0340");
  int64_t position = 0;
  while (position < file->size()) {
    const uint8_t *text = file->data() + position;
    int64_t rest = file->size() - position;
    int64_t size = rest;
    // Without a place to cut in one block, look in a longer one.
    for (int64_t window = blockBytes;
         window < rest && tokenizer.splitsBeforeWords(); window *= 2) {
      int64_t cut = findCut(text, window);
      if (cut < window) {
        size = cut;
        break;
      }
    }
    std::vector<int32_t> ids = tokenizer.encodeBytes(
        std::string(reinterpret_cast<const char *>(text), size));
    out.append(ids.data(), ids.size());
    position += size;
  }
  if (std::optional<int32_t> end = tokenizer.endOfText())
    out.append(&*end, 1);
  return file->size();
}

static int64_t copyTokens(const TokenFile &from, int64_t first, int64_t last,
                          const std::string &path, int64_t vocab) {
  TokenWriter out(path, vocab);
  std::vector<int32_t> block(blockTokens);
  for (; first < last; first += blockTokens) {
    int64_t number = std::min(blockTokens, last - first);
    from.read(first, number, vocab, block.data());
    out.append(block.data(), number);
  }
  return out.finish();
}

static std::string valName(const std::string &output) {
  std::string stem = output;
  if (stem.size() > 4 && stem.compare(stem.size() - 4, 4, ".bin") == 0)
    stem.resize(stem.size() - 4);
  return stem + ".val.bin";
}

PrepareResult io::prepareTokens(const PrepareOptions &options) {
  if (options.inputs.empty())
    fail("H0180", "no text to prepare", "name at least one text file");
  if (!(options.valFraction >= 0 && options.valFraction < 1))
    fail("H0180",
         "the fraction for validation is " +
             std::to_string(options.valFraction),
         "choose one from 0 to below 1, as 0.1");
  std::unique_ptr<Tokenizer> tokenizer = openTokenizer(options.tokenizer);
  PrepareResult result;
  result.vocab = tokenizer->vocabSize();
  result.trainFile = options.output;
  bool split = options.valFraction > 0;
  if (split && isDevice(options.output))
    fail("H0183",
         options.output + " is no file, so that none can be beside it for the "
                          "tokens of --val-fraction",
         "name a file with -o, or leave out --val-fraction");
  if (split)
    result.valFile = valName(options.output);
  std::vector<NamedFile> inputs;
  for (const std::string &input : options.inputs)
    inputs.push_back({"the text", input});
  requireApart(inputs, {{"-o", options.output}, {"-o", result.valFile}});
  TokenWriter out(options.output, result.vocab);
  int64_t bytes = 0;
  for (const std::string &input : options.inputs)
    bytes += encodeFile(input, *tokenizer, out);
  if (bytes == 0)
    fail("H0180",
         options.inputs.size() == 1 ? "there is no text in " + options.inputs[0]
                                    : "there is no text in any of the files",
         "name a file that has text");
  if (!split) {
    result.trainTokens = out.finish();
    return result;
  }
  out.complete();
  TokenFile all = TokenFile::open(out.temporaryPath());
  result.valTokens =
      std::llround(static_cast<double>(all.size()) * options.valFraction);
  int64_t cut = all.size() - result.valTokens;
  result.trainTokens = copyTokens(all, 0, cut, result.trainFile, result.vocab);
  copyTokens(all, cut, all.size(), result.valFile, result.vocab);
  return result;
}
