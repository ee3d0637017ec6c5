//===- CompiledEncoder.h - The programs that encode -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_COMPILEDENCODER_H
#define HEDDLE_RUNTIME_APP_COMPILEDENCODER_H

#include "Pooling.h"
#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/serve/Encoder.h"

#include <map>

namespace heddle::rt {

/// Computes texts with the programs `encode` of a binary, and makes one vector
/// of the hidden states of a text's tokens. Ranks along `data` are groups with
/// whole weights, which share the texts of a run out.
class CompiledEncoder : public Encoder {
public:
  /// Throws H0191 when the plan does not encode, and H0378 when its hidden
  /// states have another width than the pooling needs.
  CompiledEncoder(Job &job, Pooling pooling);

  const EncoderLimits &limits() const override { return most; }
  int64_t bucketOf(int64_t tokens) const override;
  void run(const std::vector<const EncoderText *> &texts,
           float *embeddings) override;
  void follow() override;
  void finish() override;

  /// `run` where every rank has the texts; rank 0 has all embeddings.
  void compute(const std::vector<const EncoderText *> &texts,
               float *embeddings);
  /// The same of one text, which the first group computes, with the logits of
  /// its tokens, [tokens][vocab].
  void score(const EncoderText &text, float *embedding, float *logits);

private:
  const LoadedProgram &choose(int64_t rows, int64_t tokens, bool logits) const;
  void runOn(const LoadedProgram &program,
             const std::vector<const EncoderText *> &texts);
  /// Writes the embeddings of texts of this rank's group.
  void computeOwn(const std::vector<const EncoderText *> &texts,
                  float *embeddings);
  /// Makes the vector of the text of a row.
  void pool(const LoadedProgram &program, int64_t row, const EncoderText &text,
            float *embedding);

  Job &job;
  const Pooling pooling;
  EncoderLimits most;
  int64_t ownGroup = 0;
  int64_t numRuns = 0; ///< The steps of which ranks tell when one is missed.
  std::vector<const LoadedProgram *> programs; ///< By tokens, then rows.
  std::map<std::string, double> costs;         ///< Of programs, by name.
  std::vector<float> hidden;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_COMPILEDENCODER_H
