//===- TokenFile.h - Read and write files of tokens -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files of training tokens: llm.c's, Megatron's, integers without header
// (nanoGPT), or plain text as bytes. A file's bytes determine its format; only
// Megatron's pair of a .bin and an .idx file is recognized by its names.
// DataFeed reads batches from these files; `heddle data` writes and checks
// them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENFILE_H
#define HEDDLE_RUNTIME_IO_TOKENFILE_H

#include "heddle/runtime/io/File.h"

namespace heddle::io {

/// The integer type of a file without header.
struct TokenType {
  /// Bytes per token; 0: guessed from the bytes of the file.
  int64_t width = 0;
  bool isSigned = false;
};

/// A file as users name it: `FILE`, or `FILE:u32` for integers of that type
/// without header (u8, u16, u32, u64, i8, i16, i32, i64). If a file exists
/// whose name is the whole argument, such as `FILE:u32`, that file is meant.
struct TokenSource {
  std::string path;
  TokenType type;
  /// Throws H0159 for an unknown type after the name of an existing file.
  static TokenSource parse(const std::string &text);
};

/// A mapped file of tokens.
class TokenFile {
public:
  enum class Format { LlmC16, LlmC32, Megatron, Headerless, Text };

  /// Opens the file that `source` names (see TokenSource); for a Megatron pair,
  /// either file or their common prefix. `vocab` is the size of the model's
  /// vocabulary, or 0 if it is unknown. A plain text is read with one token per
  /// byte, and refused unless `vocab` is 0 or from 256 to 512.
  static TokenFile open(const std::string &source, int64_t vocab = 0);

  Format format() const { return fileFormat; }
  std::string formatName() const;
  /// A remark for the user on how the file is read, such as a guess of its
  /// format. Often "".
  std::string remark() const;
  const std::string &path() const { return filePath; }
  /// The number of tokens.
  int64_t size() const { return count; }
  int64_t at(int64_t index) const;
  /// Copies tokens [first, first+number). Throws H0346, with index, value and
  /// vocabulary, at the first token that is negative or >= `vocab`.
  void read(int64_t first, int64_t number, int64_t vocab,
            int32_t *destination) const;
  /// What `scan` finds: a hash of the tokens, and the first invalid one.
  struct Scan {
    uint64_t hash = 0;     ///< XXH3 of the tokens' bytes.
    int64_t firstBad = -1; ///< First token that `read` would refuse; -1: none.
  };
  /// Hashes tokens [first, first+number) and searches for one that is negative
  /// or >= `vocab`. Reads the tokens twice, so ranges that fit into a cache are
  /// fastest.
  Scan scan(int64_t first, int64_t number, int64_t vocab) const;
  /// Throws H0346, which says that the token at `index` is outside of the
  /// vocabulary.
  [[noreturn]] void failForeign(int64_t index, int64_t vocab) const;
  /// Bytes per token.
  int64_t tokenBytes() const { return width; }
  /// Throws H0347 unless the file has at least `needed` tokens; `what` says
  /// what needs them, such as `one batch of 4 rows x 256 tokens`.
  void requireSize(int64_t needed, const std::string &what) const;

private:
  /// Tokens that are contiguous in the file.
  struct TokenRange {
    int64_t firstToken;
    int64_t byteOffset;
    int64_t tokens;
  };
  void openByContent(int64_t vocab);
  void openText(int64_t vocab);
  void openLlmC();
  void openMegatron(const std::string &prefix);
  /// Opens integers without header, of the given type or of the guessed one.
  void openHeaderless(TokenType type, int64_t vocab);
  const TokenRange &rangeOf(int64_t index) const;
  int64_t decode(const uint8_t *bytes) const;
  std::string filePath;
  Format fileFormat = Format::Headerless;
  int64_t count = 0;
  int64_t width = 2; ///< Bytes per token.
  bool isSigned = false;
  bool isGuessed = false; ///< The width was guessed from the bytes.
  std::vector<TokenRange> ranges;
  std::shared_ptr<const MappedFile> file;
};

/// Writes llm.c's format token by token: 16 bits each, or 32 if `vocab` needs
/// them.
class TokenWriter {
public:
  TokenWriter(const std::string &path, int64_t vocab);
  ~TokenWriter();
  void append(const int32_t *tokens, int64_t number);
  /// Writes the number of tokens into the header, and returns it.
  int64_t complete();
  /// Completes the file and renames it; returns the number of tokens.
  int64_t finish();
  /// The path of the temporary file, which `finish` renames.
  const std::string &temporaryPath() const { return out.temporaryPath(); }

private:
  OutputFile out;
  bool wide;
  int64_t count = 0;
};

/// `heddle data check`: statistics of a whole file.
struct TokenStatistics {
  std::string format;
  int64_t tokens = 0;
  int64_t maximum = 0;
  int64_t distinct = 0;
  /// Entropy of the distribution of tokens, in nats.
  double unigramEntropy = 0;
  /// Entropy of a token given the token before it, in nats. 0 if it is not
  /// computed, since the vocabulary has more than 4096 tokens.
  double bigramEntropy = 0;
};
/// Throws H0346 at the first token >= `vocab` (0: not checked).
TokenStatistics checkTokens(const std::string &path, int64_t vocab);

/// Options of `heddle data prepare`.
struct PrepareOptions {
  std::vector<std::string> inputs;
  /// `bytes`, or a directory with a tokenizer.json.
  std::string tokenizer = "bytes";
  std::string output;     ///< Ends in `.bin`.
  double valFraction = 0; ///< Share of each input that goes to `NAME.val.bin`.
  std::string field = "text"; ///< The key of a record's text.
  /// `text`: the file is one document; `jsonl`: one record a line; `auto`:
  /// guessed from the file's bytes.
  std::string format = "auto";
};
struct PrepareResult {
  int64_t vocab = 0;
  int64_t trainTokens = 0;
  int64_t valTokens = 0;
  std::string trainFile, valFile;
  int64_t documents = 0;      ///< Documents that have a text.
  std::optional<int32_t> end; ///< The token after each document.
  /// False if the tokenizer has no token to separate documents.
  bool isDivided = true;
};
/// Writes documents one after the other, each followed by the tokenizer's
/// end-of-text token. If the tokenizer has no such token, a line end separates
/// the documents. Throws H0180 for an empty input, and for a `valFraction` with
/// which the training or the validation file would have no tokens. Throws H0348
/// for an input that is no text, and H0339 for a line that is no JSON object
/// with a text under the key `field`.
PrepareResult prepareTokens(const PrepareOptions &options);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENFILE_H
