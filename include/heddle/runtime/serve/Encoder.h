//===- Encoder.h - The interface of embedding models ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interface between the server of embeddings and the compiled model.
// CompiledEncoder implements it; tests have their own.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_ENCODER_H
#define HEDDLE_RUNTIME_SERVE_ENCODER_H

#include <cstdint>
#include <vector>

namespace heddle::rt {

using Tokens = std::vector<int32_t>;

/// The tokens of a text to be embedded.
struct EncoderText {
  Tokens tokens;
  /// Number of tokens at the beginning of the text that pooling ignores. These
  /// are the tokens of the prompt, if the model was trained to pool without
  /// them.
  int32_t unpooled = 0;
};

/// Limits of a compiled encoder.
struct EncoderLimits {
  int64_t vocab = 0;
  int64_t width = 0;     ///< Elements of an embedding.
  int64_t maxRows = 0;   ///< Texts of one run.
  int64_t maxTokens = 0; ///< Tokens of one text.
};

/// Computes embeddings. One thread calls it.
///
/// The embedding of a text must not depend, in any bit, on the other texts of
/// the run.
class Encoder {
public:
  virtual ~Encoder() = default;
  virtual const EncoderLimits &limits() const = 0;
  /// Returns the length to which a text of `tokens` tokens is padded, which is
  /// called its bucket. Each bucket has a compiled program, so all texts of a
  /// run must have the same bucket.
  virtual int64_t bucketOf(int64_t tokens) const = 0;
  /// Writes the embeddings [texts][width] of 1 to `maxRows` texts with the same
  /// bucket (padded length). Each text has 1 to `maxTokens` tokens. Throws a
  /// UserError when it cannot continue, as when a rank is lost.
  virtual void run(const std::vector<const EncoderText *> &texts,
                   float *embeddings) = 0;

  /// Computes what rank 0 tells this rank, and returns when rank 0 calls
  /// `finish`. In a job of several ranks, rank 0 calls `run`, and every other
  /// rank calls `follow`.
  virtual void follow() {}
  virtual void finish() {}
};

/// Returns the indices of the texts for the next run: the first text, and later
/// texts with the same bucket (padded length), at most `maxRows` in all.
std::vector<size_t> nextBatch(const Encoder &encoder,
                              const std::vector<const EncoderText *> &texts);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_ENCODER_H
