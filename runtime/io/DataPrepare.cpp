//===- DataPrepare.cpp - Write and check token files ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `heddle data prepare` and `heddle data check`: turns documents into files of
// tokens, and reports statistics of such files.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/FileKind.h"
#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/io/TokenFile.h"
#include "heddle/runtime/io/Tokenizer.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

using namespace heddle;
using namespace heddle::io;

static constexpr int64_t headerWords = 256;
/// Tokens or bytes that are processed at a time.
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

/// Returns the entropy of a histogram, in nats.
template <typename Counts>
static double entropyOf(const Counts &counts, int64_t total) {
  double sum = 0;
  for (int64_t n : counts)
    if (n > 0)
      sum += static_cast<double>(n) * std::log(static_cast<double>(n));
  return std::log(static_cast<double>(total)) - sum / total;
}

/// Returns the entropy of a token given the previous one.
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
// data prepare: documents
//===----------------------------------------------------------------------===//

/// Returns the tokens of a line end; none if the tokenizer drops or refuses it.
static std::vector<int32_t> lineEnd(const Tokenizer &tokenizer) {
  try {
    return tokenizer.encode("\n");
  } catch (const UserError &) {
    return {};
  }
}

namespace {

/// Writes the tokens of documents to a file, with a separator between two
/// documents.
class DocumentWriter {
public:
  DocumentWriter(const std::string &path, int64_t vocab,
                 const Tokenizer &tokenizer)
      : out(path, vocab), end(tokenizer.endOfText()),
        divider(end ? std::vector<int32_t>{*end} : lineEnd(tokenizer)) {}

  /// Begins a document: writes a separator if the document before it needs one.
  /// Returns the index of the document's first token in the file.
  int64_t begin() {
    // A document that ends with the end token needs no separator. A document
    // that was cut off has no end token.
    if (count > 0 && (!end || last != *end))
      append(divider);
    return count;
  }
  void append(const std::vector<int32_t> &tokens) {
    out.append(tokens.data(), int64_t(tokens.size()));
    count += int64_t(tokens.size());
    if (!tokens.empty())
      last = tokens.back();
  }
  void endDocument() {
    if (end)
      append({*end});
    ++documents;
  }
  int64_t size() const { return count; }
  int64_t numDocuments() const { return documents; }
  bool isDivided() const { return !divider.empty(); }
  TokenWriter &file() { return out; }

private:
  TokenWriter out;
  std::optional<int32_t> end;
  std::vector<int32_t> divider;
  int64_t count = 0, documents = 0;
  int32_t last = -1;
};

/// Splits input files into documents and encodes them.
class Preparation {
public:
  Preparation(const PrepareOptions &options, const Tokenizer &tokenizer)
      : options(options), tokenizer(tokenizer) {}

  /// Appends the documents of a file; returns the index of their first token.
  int64_t add(const std::string &path, DocumentWriter &out);

private:
  bool hasRecords(const MappedFile &file) const;
  void addText(std::string_view text, DocumentWriter &out);
  void addRecords(const MappedFile &file, DocumentWriter &out);
  std::string textOf(std::string_view line, const SourceLocation &where) const;

  const PrepareOptions &options;
  const Tokenizer &tokenizer;
  int64_t begin = 0; ///< Index of the file's first token.
  bool isFirst = true;
};

} // namespace

/// Returns the last position at which a text can be split so that its parts
/// have the same tokens as the whole text. Such a position is before a space
/// between two letters. Returns the text's size if there is no such position.
static size_t findCut(std::string_view text) {
  auto isLetter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  for (size_t i = text.size(); i-- > 2;)
    if (text[i - 1] == ' ' && isLetter(text[i - 2]) && isLetter(text[i]))
      return i - 1;
  return text.size();
}

static std::string_view textOf(const MappedFile &file) {
  return {reinterpret_cast<const char *>(file.data()), size_t(file.size())};
}

/// Appends one document; nothing if the text is empty.
void Preparation::addText(std::string_view text, DocumentWriter &out) {
  if (text.empty())
    return;
  int64_t start = out.begin();
  if (isFirst)
    begin = start;
  isFirst = false;
  while (!text.empty()) {
    size_t size = text.size();
    // Encode the text block by block. If a block has no position at which the
    // text can be split, try a block twice as long.
    for (size_t window = blockBytes;
         window < text.size() && tokenizer.splitsBeforeWords(); window *= 2) {
      size_t cut = findCut(text.substr(0, window));
      if (cut < window) {
        size = cut;
        break;
      }
    }
    out.append(tokenizer.encodeBytes(std::string(text.substr(0, size))));
    text.remove_prefix(size);
  }
  out.endDocument();
}

/// Returns the text of a record, which is a line of JSON.
std::string Preparation::textOf(std::string_view line,
                                const SourceLocation &where) const {
  static const JsonCodes codes = {"H0340", "H0339", "H0339",
                                  "H0339", "H0339", "H0339"};
  JsonValue record;
  try {
    record = parseJson(std::string(line), {where.file, codes});
  } catch (UserError &error) {
    Diagnostic problem = error.diagnostic;
    problem.location.file = where.file;
    problem.location.line = where.line;
    problem.help = "repair the line; --format text takes the file as one text";
    throw UserError(std::move(problem));
  }
  const JsonValue *text =
      record.isObject() ? record.find(options.field) : nullptr;
  if (text && text->isString())
    return text->asString();
  std::string texts;
  if (record.isObject())
    for (const JsonMember &member : record.members())
      if (member.value.isString())
        texts += (texts.empty() ? "" : ", ") + member.key;
  fail("H0339",
       text
           ? "\"" + options.field + "\" is " + text->describe() + ", not a text"
           : "the record has no \"" + options.field + "\"",
       texts.empty() ? "name the member that is the text with --field"
                     : "name the member that is the text, as --field " +
                           texts.substr(0, texts.find(',')) +
                           " (its texts are: " + texts + ")",
       where);
}

void Preparation::addRecords(const MappedFile &file, DocumentWriter &out) {
  std::string_view rest = ::textOf(file);
  constexpr std::string_view byteOrderMark = "\xEF\xBB\xBF";
  if (rest.substr(0, byteOrderMark.size()) == byteOrderMark)
    rest.remove_prefix(byteOrderMark.size());
  for (int32_t number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") != std::string_view::npos)
      addText(textOf(line, {file.path(), number, 1}), out);
  }
}

/// Whether each line of the file is a document. Throws H0348 for a file that is
/// no text.
bool Preparation::hasRecords(const MappedFile &file) const {
  if (options.format != "auto")
    return options.format == "jsonl";
  ForeignKind kind = foreignKindOf(file);
  bool isBinary = kind.name.empty() && hasControlCharacters(file);
  if (isBinary || !kind.name.empty())
    fail("H0348",
         file.path() + " is " + (isBinary ? "binary" : kind.name) +
             ", not a text",
         (kind.help.empty() ? "name a text" : kind.help) +
             "; --format text takes its bytes as they are",
         {file.path(), 0, 0});
  return isJsonLines(file);
}

int64_t Preparation::add(const std::string &path, DocumentWriter &out) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path, "H0340");
  begin = out.size();
  isFirst = true;
  if (hasRecords(*file))
    addRecords(*file, out);
  else
    addText(::textOf(*file), out);
  return begin;
}

//===----------------------------------------------------------------------===//
// data prepare: training and validation
//===----------------------------------------------------------------------===//

static void copyTokens(const TokenFile &from, int64_t first, int64_t last,
                       int64_t vocab, DocumentWriter &to) {
  if (first < last)
    to.begin();
  for (; first < last; first += blockTokens) {
    std::vector<int32_t> block(std::min(blockTokens, last - first));
    from.read(first, int64_t(block.size()), vocab, block.data());
    to.append(block);
  }
}

static std::string valName(const std::string &output) {
  std::string stem = output;
  if (stem.size() > 4 && stem.compare(stem.size() - 4, 4, ".bin") == 0)
    stem.resize(stem.size() - 4);
  return stem + ".val.bin";
}

static void checkOptions(const PrepareOptions &options) {
  if (options.inputs.empty())
    fail("H0180", "no text to prepare", "name at least one text file");
  if (!(options.valFraction >= 0 && options.valFraction < 1))
    fail("H0180",
         "the fraction for validation is " +
             std::to_string(options.valFraction),
         "choose one from 0 to below 1, as 0.1");
  if (options.valFraction > 0 && isDevice(options.output))
    fail("H0183",
         options.output + " is no file, so that none can be beside it for the "
                          "tokens of --val-fraction",
         "name a file with -o, or leave out --val-fraction");
}

namespace {

/// The tokens of one input file: the tokens from `first` to `last - 1` of all
/// inputs' tokens.
struct InputTokens {
  int64_t first, last;
};

} // namespace

/// Takes the last tokens of each input for validation, and the tokens before
/// them for training. The number of validation tokens of each input is rounded
/// up or down, such that the sum of these numbers is `valFraction` of all
/// tokens, rounded.
static void divide(const PrepareOptions &options, const Tokenizer &tokenizer,
                   const TokenFile &all, const std::vector<InputTokens> &inputs,
                   PrepareResult &result) {
  int64_t total = 0;
  for (const InputTokens &input : inputs)
    total += input.last - input.first;
  int64_t share = std::llround(double(total) * options.valFraction);
  if (share == 0 || share == total)
    fail("H0180",
         "--val-fraction " + std::to_string(options.valFraction) + " of " +
             std::to_string(total) + " tokens leaves none for " +
             (share == 0 ? "validation" : "training"),
         "give a fraction of at least one token of each, or more text");
  DocumentWriter train(result.trainFile, result.vocab, tokenizer),
      val(result.valFile, result.vocab, tokenizer);
  int64_t before = 0, shared = 0;
  for (const InputTokens &input : inputs) {
    before += input.last - input.first;
    int64_t most = std::llround(double(before) * options.valFraction);
    int64_t cut = input.last - (most - shared);
    shared = most;
    copyTokens(all, input.first, cut, result.vocab, train);
    copyTokens(all, cut, input.last, result.vocab, val);
  }
  result.trainTokens = train.file().finish();
  result.valTokens = val.file().finish();
}

PrepareResult io::prepareTokens(const PrepareOptions &options) {
  checkOptions(options);
  std::unique_ptr<Tokenizer> tokenizer = openTokenizer(options.tokenizer);
  PrepareResult result;
  result.vocab = tokenizer->vocabSize();
  result.end = tokenizer->endOfText();
  result.trainFile = options.output;
  bool split = options.valFraction > 0;
  if (split)
    result.valFile = valName(options.output);
  std::vector<NamedFile> inputs;
  for (const std::string &input : options.inputs)
    inputs.push_back({"the text", input});
  requireApart(inputs, {{"-o", options.output}, {"-o", result.valFile}});
  DocumentWriter out(options.output, result.vocab, *tokenizer);
  Preparation preparation(options, *tokenizer);
  std::vector<InputTokens> parts;
  for (const std::string &input : options.inputs) {
    int64_t begin = preparation.add(input, out);
    parts.push_back({begin, out.size()});
  }
  result.documents = out.numDocuments();
  result.isDivided = out.isDivided();
  if (result.documents == 0)
    fail("H0180",
         options.inputs.size() == 1 ? "there is no text in " + options.inputs[0]
                                    : "there is no text in any of the files",
         "name a file that has text");
  if (!split) {
    result.trainTokens = out.file().finish();
    return result;
  }
  out.file().complete();
  divide(options, *tokenizer, TokenFile::open(out.file().temporaryPath()),
         parts, result);
  return result;
}
