//===- CompiledEncoder.h - Embeddings with a compiled binary ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements Encoder with the compiled programs `encode`: embeds texts on all
// ranks of a job.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_COMPILEDENCODER_H
#define HEDDLE_RUNTIME_APP_COMPILEDENCODER_H

#include "Pooling.h"
#include "ServingPrograms.h"
#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/serve/Encoder.h"

#include <map>

namespace heddle::rt {

/// Runs the programs `encode` of a binary and pools the hidden states of each
/// text into one vector. Each replica along the mesh axis `data` (a group of
/// ranks) has all weights, and computes a share of the texts.
class CompiledEncoder : public Encoder {
public:
  /// Throws H0191 when the plan has no program `encode`, and H0378 when a step
  /// of the pooling takes vectors of another width than the model's hidden
  /// states have.
  CompiledEncoder(Job &job, Pooling pooling);

  const EncoderLimits &limits() const override { return most; }
  int64_t bucketOf(int64_t tokens) const override;
  void run(const std::vector<const EncoderText *> &texts,
           float *embeddings) override;
  void follow() override;
  void finish() override;

  /// Does the work of `run` on one rank, which already has the texts. Rank 0
  /// receives all embeddings.
  void compute(const std::vector<const EncoderText *> &texts,
               float *embeddings);
  /// Embeds one text on the first replica of the model (group of ranks). Also
  /// returns the logits of the text's tokens, [tokens][vocab].
  void score(const EncoderText &text, float *embedding, float *logits);

private:
  const LoadedProgram &choose(int64_t rows, int64_t tokens, bool logits) const;
  void runOn(const LoadedProgram &program,
             const std::vector<const EncoderText *> &texts);
  /// Computes the embeddings of those texts that belong to this rank's replica
  /// of the model.
  void computeOwn(const std::vector<const EncoderText *> &texts,
                  float *embeddings);
  /// Pools the hidden states of a row of the batch into a vector.
  void pool(const LoadedProgram &program, int64_t row, const EncoderText &text,
            float *embedding);

  Job &job;
  const Pooling pooling;
  EncoderLimits most;
  int64_t ownGroup = 0;
  /// The number of program runs so far. If this rank dies, the other ranks'
  /// error message gives this number as its step.
  int64_t numRuns = 0;
  /// The programs `encode`, sorted by the number of tokens in a row, then by
  /// the number of rows.
  std::vector<const LoadedProgram *> sizes;
  ServingPrograms programs;
  /// Estimated cost of a run of each program. The key is the program's name.
  std::map<std::string, double> costs;
  std::vector<float> hidden;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_COMPILEDENCODER_H
