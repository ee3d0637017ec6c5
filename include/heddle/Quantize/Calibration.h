//===- Calibration.h - What a model's layers read ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_QUANTIZE_CALIBRATION_H
#define HEDDLE_QUANTIZE_CALIBRATION_H

#include "heddle/Quantize/Gptq.h"
#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/app/Steps.h"
#include <map>

namespace heddle::quantize {

/// The rows of a token file that are computed: a row of T tokens has the next
/// one of each as its labels.
struct CalibrationText {
  std::string file;
  int64_t rows = 0;
};

/// Goes through a model layer by layer, with a text: with the programs of a
/// binary whose layers were split (the pass train-split-layers). Computing all
/// layers costs two forward passes, and their products' moments; with stages of
/// layers each costs what the layer computes before it.
class Calibration {
public:
  /// Loads the binary with its weights, and computes what comes before the
  /// first layer when that is asked for. Throws H0347 for a text of fewer
  /// tokens than one run, H0346 for tokens that the vocabulary does not have.
  Calibration(const std::string &binary, const CalibrationText &text);

  int64_t layers() const { return int64_t(layerPrograms.size()); }
  /// Rows that are computed: whole runs of those that were asked for.
  int64_t rows() const { return runs * rowsOfRun; }
  /// Of the next layer: its products in the order in which they are computed,
  /// or all of them as one.
  int64_t stages();
  /// The moments of what a stage's products read, by the names of their
  /// weights.
  std::map<std::string, Moments> moments(int64_t stage);
  /// Computes the next layer, and goes on to the one behind it.
  void advance();
  /// Gives a tensor of the weight files other values, in its layout.
  void replace(const std::string &tensor, const std::vector<float> &values);
  /// The perplexity of a text, with the values that tensors have now.
  double perplexity(const CalibrationText &text);

  /// What it holds beside the weights and the arena, for people: the hidden
  /// states of all rows, and the moments of the products of a stage.
  std::string memoryText();

  rt::ThreadPool &threadPool() { return job.threadPool(); }

private:
  const rt::LoadedProgram *find(const std::string &name);
  const rt::LoadedProgram *findStage(int64_t layer, int64_t stage);
  void fillInputs(const rt::LoadedProgram &program, int64_t run);

  rt::Ranks ranks;
  rt::Job job;
  std::vector<const rt::LoadedProgram *> layerPrograms;
  int64_t layer = 0; ///< The next one.
  int64_t rowsOfRun, runs;
  rt::DataFeed feed;
  std::vector<std::vector<float>> hidden; ///< Of each run.
};

} // namespace heddle::quantize

#endif // HEDDLE_QUANTIZE_CALIBRATION_H
