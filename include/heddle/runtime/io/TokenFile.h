//===- TokenFile.h - Token files, in and out --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Token files of llm.c, Megatron and nanoGPT, and plain text read as bytes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENFILE_H
#define HEDDLE_RUNTIME_IO_TOKENFILE_H

#include "heddle/runtime/io/File.h"

namespace heddle::io {

/// A file of tokens, mapped; what it is is found by looking at it.
class TokenFile {
public:
  enum class Format { LlmC16, LlmC32, Megatron, Headerless16, Text };

  /// Opens a file; for Megatron's pair either of both, or their common prefix.
  /// A .txt file is read as bytes, which needs `vocab` >= 256 (0: not checked).
  static TokenFile open(const std::string &path, int64_t vocab = 0);

  Format format() const { return fileFormat; }
  const char *formatName() const;
  const std::string &path() const { return filePath; }
  /// The number of tokens.
  int64_t size() const { return count; }
  int64_t at(int64_t index) const;
  /// Copies tokens [first, first+number); throws H0346, naming index, value and
  /// vocabulary, at the first one that is negative or >= `vocab`.
  void read(int64_t first, int64_t number, int64_t vocab,
            int32_t *destination) const;
  /// What a scan of some tokens found.
  struct Scan {
    uint64_t hash = 0;     ///< XXH3 of their bytes.
    int64_t firstBad = -1; ///< The first one that `read` would refuse.
  };
  /// Looks at tokens [first, first+number) at the speed of memory: the fewer at
  /// a time that a cache holds them, the faster.
  Scan scan(int64_t first, int64_t number, int64_t vocab) const;
  /// Throws H0346 for the token at `index`.
  [[noreturn]] void failForeign(int64_t index, int64_t vocab) const;
  /// Bytes per token.
  int64_t tokenBytes() const { return width; }
  /// Throws H0347 unless the file has at least `needed` tokens; `what` says
  /// what needs them, as `one batch of 4 rows x 256 tokens`.
  void requireSize(int64_t needed, const std::string &what) const;

private:
  /// Tokens that stand one after the other in the file.
  struct Run {
    int64_t firstToken;
    int64_t byteOffset;
    int64_t tokens;
  };
  void sniffBinary();
  void openLlmC();
  void openMegatron(const std::string &prefix);
  const Run &runOf(int64_t index) const;
  int64_t decode(const uint8_t *bytes) const;
  std::string filePath;
  Format fileFormat = Format::Headerless16;
  int64_t count = 0;
  int64_t width = 2; ///< Bytes per token.
  bool isSigned = false;
  std::vector<Run> runs;
  std::shared_ptr<const MappedFile> file;
};

/// Writes llm.c's format token by token: 16 bits, or 32 where `vocab` needs it.
class TokenWriter {
public:
  TokenWriter(const std::string &path, int64_t vocab);
  ~TokenWriter();
  void append(const int32_t *tokens, int64_t number);
  /// Completes the header; the number of tokens.
  int64_t complete();
  /// Completes the file and gives it its name; the number of tokens.
  int64_t finish();
  /// The file until `finish`.
  const std::string &temporaryPath() const { return out.temporaryPath(); }

private:
  OutputFile out;
  bool wide;
  int64_t count = 0;
};

/// `heddle data check`: what a scan of a whole file found.
struct TokenStatistics {
  std::string format;
  int64_t tokens = 0;
  int64_t maximum = 0;
  int64_t distinct = 0;
  double unigramEntropy = 0; ///< Nats per token.
  double bigramEntropy = 0;  ///< Nats per token, given the one before; 0 when
                             ///< not counted (vocabulary over 4096).
};
/// Throws H0346 at the first token >= `vocab` (0: not checked).
TokenStatistics checkTokens(const std::string &path, int64_t vocab);

/// `heddle data prepare`.
struct PrepareOptions {
  std::vector<std::string> inputs;
  std::string tokenizer = "bytes"; ///< Or a directory with a tokenizer.json.
  std::string output;              ///< As `FILE.bin`.
  double valFraction = 0;          ///< The rest goes to `FILE.val.bin`.
};
struct PrepareResult {
  int64_t vocab = 0;
  int64_t trainTokens = 0;
  int64_t valTokens = 0;
  std::string trainFile, valFile;
};
PrepareResult prepareTokens(const PrepareOptions &options);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENFILE_H
