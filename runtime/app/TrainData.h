//===- TrainData.h - The data of a training run -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the batches of a training run from token files or tensors, checks all
// tokens before the first step, and finds the position of a resumed run.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_TRAINDATA_H
#define HEDDLE_RUNTIME_APP_TRAINDATA_H

#include "heddle/runtime/app/Steps.h"

namespace heddle::rt {

/// The batches of a training run, from `--data` or `--inputs`: checks all
/// tokens before the first step, and continues where a checkpoint stopped. All
/// ranks call the same functions; an error on one is thrown on all.
class TrainData {
public:
  /// Opens the files. Throws H0186 and the errors of DataFeed.
  TrainData(Job &job, const TrainOptions &options);

  /// Checks all tokens of the data and of `validation` (may be null). Throws
  /// H0346 for a token outside the vocabulary.
  void check(const Evaluation *validation);
  /// Starts a new run at the first token. `seed` is the seed for shuffling and
  /// masking.
  void begin(uint64_t seed);
  /// Continues with the data after the position that the checkpoint `state`
  /// records. Throws H0368 when the position is unknown, or the data is not
  /// what the checkpoint's run read.
  void resume(const io::CheckpointState &state, uint64_t seed);

  /// Fills this rank's inputs for step `step`, counted from 0.
  void read(const BatchInputs &inputs, int64_t step);
  /// Returns the position in the data after `steps` steps, including the steps
  /// before a resume.
  io::DataState stateAfter(int64_t steps);
  /// Remarks for the user, one line each.
  const std::vector<std::string> &remarks() const { return lines; }

private:
  void requireSame(const io::DataState &saved) const;
  void resumeOld(const io::CheckpointState &state);

  Job &job;
  const TrainOptions &options;
  BatchShape batch;
  std::unique_ptr<DataFeed> source; ///< Null if `given` is set.
  std::unique_ptr<InputFile> given;
  std::optional<Masking> masking; ///< Masks tokens of `source`.
  uint64_t seed = 0;              ///< Seed of masking and shuffling.
  int64_t first = 0;              ///< First step of this run.
  std::vector<std::string> lines;
  bool isWhole = true; ///< False if a signal ended the check of tokens early.
};

/// Checks the first `tokens` tokens of a file, divided over all ranks and
/// threads. Throws H0346 on all ranks for the first token outside the
/// vocabulary. Returns a hash of the tokens in hexadecimal, or "" if a stop
/// signal ended the scan early. The hash is XXH3 over the XXH3 of each block of
/// 262144 tokens, so that it does not depend on how the blocks are divided.
std::string scanTokens(Job &job, const io::TokenFile &file, int64_t tokens);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_TRAINDATA_H
