//===- CalibrationJob.h - Prepares a calibration ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes token files and a compiled binary. GPTQ uses them for its calibration,
// and `heddle quantize` for the perplexities before and after quantization.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_CALIBRATIONJOB_H
#define HEDDLE_TOOLS_HEDDLE_CALIBRATIONJOB_H

#include "heddle/Import/ModelSpec.h"
#include "heddle/Quantize/Calibration.h"
#include "heddle/runtime/io/Temporary.h"

namespace heddle::driver {

/// The flags of `heddle quantize` that choose the text for calibration and the
/// text for perplexities.
struct CalibrationFlags {
  std::string file; ///< Token file or text; "": no calibration.
  /// Token file or text for perplexities. If it is "", perplexities are
  /// measured on the rows of `file` that the calibration does not use, or on
  /// the calibration's rows if there are no others.
  std::string evalFile;
  bool isThere() const { return !file.empty() || !evalFile.empty(); }
  /// The most rows that are read of each text. A row is a sequence of `seq`
  /// tokens. If `file` is "", all rows of `evalFile` are read.
  int64_t rows = 128;
  int64_t seq = 0; ///< Tokens of a row; 0: the model's limit, at most 512.
};

/// A calibration: its token files, and a binary that returns the activations of
/// each layer. These files are temporary, and the destructor removes them. If
/// only `CalibrationFlags::evalFile` is given, the calibration text has 0 rows
/// (sequences of `seq` tokens), and the binary only computes the perplexity of
/// the text in `evalFile`.
class CalibrationJob {
public:
  /// Reads and checks the texts. `output` is the directory that will be
  /// written.
  CalibrationJob(const std::string &model, const CalibrationFlags &flags,
                 const std::string &output);

  /// Compiles the model. Returns the exit status of an error, which was
  /// printed, or 0. With `sequential`, each layer is compiled as several
  /// programs (stages), so that GPTQ can quantize the weights of one stage
  /// before the activations of the next are computed.
  int compile(bool sequential);
  /// Valid after `compile`.
  quantize::Calibration &calibration() { return *ready; }

  /// Returns the text on which perplexities are measured.
  const quantize::CalibrationText &evaluated() const { return evaluation; }
  /// Returns a name, for messages, of the text on which perplexities are
  /// measured: the name of its file, or for rows of the calibration text, a
  /// description of these rows.
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
