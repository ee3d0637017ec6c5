//===- TrainData.h - The data of a training run -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_TRAINDATA_H
#define HEDDLE_RUNTIME_APP_TRAINDATA_H

#include "heddle/runtime/app/Steps.h"

namespace heddle::rt {

/// What a training run reads: the files of --data, looked at as a whole before
/// the first step, from where a checkpoint has left off. Every rank does the
/// same with it, and what fails on one is thrown on all.
class TrainData {
public:
  /// Opens the files. Throws H0186 or what DataFeed throws.
  TrainData(Job &job, const TrainOptions &options);

  /// Looks at all tokens of the data and of what `validation`, which may be
  /// null, reads. Throws H0346 for one that the vocabulary does not have.
  void check(const Evaluation *validation);
  /// Begins with the first token.
  void begin(uint64_t seed);
  /// Begins with what `state` has not read. Throws H0368 when that cannot be
  /// said, or the data is another than it read.
  void resume(const io::CheckpointState &state, uint64_t seed);

  /// Fills this rank's part of the inputs of step `step`, counted from 0, and
  /// says whether any label of all ranks counts: the host need not ask the
  /// device.
  bool read(const BatchInputs &inputs, int64_t step);
  /// Where the run stands that has done `steps` steps, those before a resume
  /// included.
  io::DataState stateAfter(int64_t steps);
  /// What a person should know of it, a line each.
  const std::vector<std::string> &remarks() const { return lines; }

private:
  bool masksAny(int64_t step);
  void requireSame(const io::DataState &saved) const;
  void resumeOld(const io::CheckpointState &state);

  Job &job;
  const TrainOptions &options;
  BatchShape batch;
  std::unique_ptr<DataFeed> source; ///< Or `given`.
  std::unique_ptr<InputFile> given;
  std::optional<Masking> masking; ///< Of `source`.
  uint64_t seed = 0;              ///< Of masks and the shuffle.
  int64_t first = 0;              ///< The step with which this run begins.
  std::vector<std::string> lines;
  bool isWhole = true; ///< No signal came while tokens were looked at.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_TRAINDATA_H
