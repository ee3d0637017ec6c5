//===- Tokenizer.h - Byte and byte-level BPE tokenizers ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tokenizers: bytes, and the byte-level BPE of a Hugging Face tokenizer.json
// with GPT-2's split pattern.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TOKENIZER_H
#define HEDDLE_RUNTIME_IO_TOKENIZER_H

#include "heddle/runtime/io/Diagnostic.h"
#include <memory>
#include <optional>

namespace heddle::io {

/// Text to token ids and back.
class Tokenizer {
public:
  virtual ~Tokenizer() = default;
  /// One more than the largest id.
  virtual int64_t vocabSize() const = 0;
  virtual std::vector<int32_t> encode(const std::string &text) const = 0;
  /// What stands between documents, when the tokenizer has such a token.
  virtual std::optional<int32_t> endOfText() const { return std::nullopt; }
  /// Bytes; not always valid UTF-8.
  virtual std::string decode(const std::vector<int32_t> &ids) const = 0;
};

/// `bytes`, or a directory with a tokenizer.json; throws H0350 to H0353.
std::unique_ptr<Tokenizer> openTokenizer(const std::string &name);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_TOKENIZER_H
