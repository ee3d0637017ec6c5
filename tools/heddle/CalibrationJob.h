//===- CalibrationJob.h - Readies the calibration of a model ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_CALIBRATIONJOB_H
#define HEDDLE_TOOLS_HEDDLE_CALIBRATIONJOB_H

#include "heddle/Import/ModelSpec.h"
#include "heddle/Quantize/Calibration.h"
#include "heddle/runtime/io/Temporary.h"

namespace heddle::driver {

/// What `heddle quantize` was told of the texts.
struct CalibrationFlags {
  std::string file;     ///< Token file or text; "": no calibration.
  std::string evalFile; ///< For the perplexity; "": what `file` has left.
  bool isThere() const { return !file.empty() || !evalFile.empty(); }
  int64_t rows = 128;
  int64_t seq = 0; ///< Tokens of a row; 0: the model's, at most 512.
};

/// A calibration with what it needs: the token files, and a binary whose layers
/// are split, under temporary names as long as this lives. Without a text to
/// calibrate with, it has no rows, and is for perplexities alone.
class CalibrationJob {
public:
  /// Reads and checks the texts. `output` is what all is made for.
  CalibrationJob(const std::string &model, const CalibrationFlags &flags,
                 const std::string &output);

  /// Compiles the model; the exit status of an error that was printed, or 0.
  /// With `sequential` the stages of a layer have programs of their own.
  int compile(bool sequential);
  /// After `compile`.
  quantize::Calibration &calibration() { return *ready; }

  /// What the perplexity is of.
  const quantize::CalibrationText &evaluated() const { return evaluation; }
  /// `evalFile`, or which part of `file` it is, for people.
  const std::string &evaluatedName() const { return name; }
  int64_t seq() const { return rowTokens; }

private:
  std::string tokensOf(const std::string &file, const char *as) const;
  int64_t rowsIn(const std::string &file) const;
  void chooseEvaluated(const CalibrationFlags &flags);
  std::string pathOf(const char *file) const;

  config::ModelSpec spec;
  io::Temporary directory;
  int64_t rowTokens = 0, rowsOfRun = 1;
  quantize::CalibrationText text, evaluation;
  std::string name;
  std::unique_ptr<quantize::Calibration> ready;
};

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_CALIBRATIONJOB_H
