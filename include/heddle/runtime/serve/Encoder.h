//===- Encoder.h - What makes vectors of texts ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Between what decides which texts are computed next and what computes them:
// the compiled programs, or a function in tests.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_ENCODER_H
#define HEDDLE_RUNTIME_SERVE_ENCODER_H

#include <cstdint>
#include <vector>

namespace heddle::rt {

using Tokens = std::vector<int32_t>;

/// A text as an encoder computes it.
struct EncoderText {
  Tokens tokens;
  /// So many tokens at the beginning have no part in the vector: those of a
  /// prompt, if the model was made so.
  int32_t unpooled = 0;
};

/// What an encoder was compiled for.
struct EncoderLimits {
  int64_t vocab = 0;
  int64_t width = 0;     ///< Elements of an embedding.
  int64_t maxRows = 0;   ///< Texts of one run.
  int64_t maxTokens = 0; ///< Of one text.
};

/// Computes embeddings. One thread calls it.
///
/// The embedding of a text must not depend, in any bit, on the other texts of
/// the run.
class Encoder {
public:
  virtual ~Encoder() = default;
  virtual const EncoderLimits &limits() const = 0;
  /// The tokens of the program that computes a text of so many: texts that are
  /// computed in one run have the same.
  virtual int64_t bucketOf(int64_t tokens) const = 0;
  /// Writes the embeddings of texts, [texts][width]. There are from 1 to
  /// `maxRows` texts of the same bucket, each of 1 to `maxTokens` tokens.
  /// Throws a UserError when it cannot go on, as when a rank is lost.
  virtual void run(const std::vector<const EncoderText *> &texts,
                   float *embeddings) = 0;

  /// As of an Engine: rank 0 decides, the others follow.
  virtual void follow() {}
  virtual void finish() {}
};

/// Which of the texts are computed in the next run: the first, and those after
/// it that have its bucket, as many as there is room for.
std::vector<size_t> nextBatch(const Encoder &encoder,
                              const std::vector<const EncoderText *> &texts);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_ENCODER_H
