//===- TokenFile.h - Token files, in and out --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Token files of llm.c, Megatron and nanoGPT, and plain text read as bytes.
// What a file is follows from its bytes, never from its name.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENFILE_H
#define HEDDLE_RUNTIME_IO_TOKENFILE_H

#include "heddle/runtime/io/File.h"

namespace heddle::io {

/// The type of a file's bare numbers.
struct TokenType {
  int64_t width = 0; ///< Bytes per token; 0: the file's bytes say it.
  bool isSigned = false;
};

/// A file as users name it: `FILE`, or `FILE:u32` for bare numbers of that type
/// (u8, u16, u32, u64, i8, i16, i32, i64). A colon that belongs to the name of
/// a file that is there begins no type.
struct TokenSource {
  std::string path;
  TokenType type;
  /// Throws H0159 for an unknown type behind the name of a file that is there.
  static TokenSource parse(const std::string &text);
};

/// A file of tokens, mapped; what it is is found by looking at it.
class TokenFile {
public:
  enum class Format { LlmC16, LlmC32, Megatron, Headerless, Text };

  /// Opens what `source` names as TokenSource says; for Megatron's pair either
  /// of both, or their common prefix. A text is read as bytes, which needs a
  /// `vocab` of about 256 (0: not checked).
  static TokenFile open(const std::string &source, int64_t vocab = 0);

  Format format() const { return fileFormat; }
  std::string formatName() const;
  /// What a person should know of how the file is read; mostly "".
  std::string remark() const;
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
  struct TokenRange {
    int64_t firstToken;
    int64_t byteOffset;
    int64_t tokens;
  };
  void openByContent(int64_t vocab);
  void openText(int64_t vocab);
  void openLlmC();
  void openMegatron(const std::string &prefix);
  /// Bare numbers, of the type that was given or that the bytes show.
  void openHeaderless(TokenType type, int64_t vocab);
  const TokenRange &rangeOf(int64_t index) const;
  int64_t decode(const uint8_t *bytes) const;
  std::string filePath;
  Format fileFormat = Format::Headerless;
  int64_t count = 0;
  int64_t width = 2; ///< Bytes per token.
  bool isSigned = false;
  bool isGuessed = false; ///< The bytes showed that tokens are wide.
  std::vector<TokenRange> ranges;
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
  double valFraction = 0;     ///< Of each input; it goes to `FILE.val.bin`.
  std::string field = "text"; ///< What a record's text is called.
  /// `text`: one document as it is; `jsonl`: a record a line; `auto`: what the
  /// file's bytes say.
  std::string format = "auto";
};
struct PrepareResult {
  int64_t vocab = 0;
  int64_t trainTokens = 0;
  int64_t valTokens = 0;
  std::string trainFile, valFile;
  int64_t documents = 0;      ///< That have a text.
  std::optional<int32_t> end; ///< The token that ends each of them.
  bool isDivided = true; ///< False where there are no tokens for a line end.
};
/// Documents follow each other with the tokenizer's end of text behind each, or
/// else a line end between two. Throws H0180 for no text, or a fraction that
/// leaves one of the outputs without a token; H0348 for what is no text; H0339
/// for a line that is no record.
PrepareResult prepareTokens(const PrepareOptions &options);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENFILE_H
