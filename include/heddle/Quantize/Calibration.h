//===- Calibration.h - Moments of products on a text ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes a model layer by layer on a text, for `heddle quantize`: GPTQ needs
// the inputs of each layer's products.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_QUANTIZE_CALIBRATION_H
#define HEDDLE_QUANTIZE_CALIBRATION_H

#include "heddle/Quantize/Gptq.h"
#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/app/Steps.h"
#include <map>

namespace heddle::quantize {

/// The first `rows` rows of a token file, on which the model is computed. The
/// label of a token is the token after it.
struct CalibrationText {
  std::string file;
  int64_t rows = 0;
};

/// Runs a model layer by layer on a text, and computes the second moments of
/// the inputs of the layers' matrix products, which GPTQ needs. The binary must
/// have a program for each layer (the pass train-split-layers). A layer is
/// computed in stages. Depending on the binary, a stage is a group of products
/// with the same input, such as q, k and v, or all products of the layer.
///
/// The calibration of all layers costs two forward passes, and the computation
/// of the moments. If a layer has several stages, each stage also recomputes
/// the operations of the layer before its own products.
class Calibration {
public:
  /// Loads the binary with its weights. If `text` has rows, computes the part
  /// of the model before the first layer on them. Throws H0347 if the text has
  /// fewer tokens than one batch of the binary, and H0346 for tokens outside of
  /// the vocabulary.
  Calibration(const std::string &binary, const CalibrationText &text);

  int64_t layers() const { return int64_t(layerPrograms.size()); }
  /// The number of rows that are computed: the requested number, rounded down
  /// to a multiple of the rows of the binary's batch.
  int64_t rows() const { return runs * rowsOfRun; }
  /// The number of stages of the next layer. The products of a stage are
  /// quantized together, before the next stage is computed.
  int64_t stages();
  /// The second moments of the inputs of the products of a stage. The keys are
  /// the names of the products' weights.
  std::map<std::string, Moments> moments(int64_t stage);
  /// Computes the next layer. The layer after it is then the next one.
  void advance();
  /// Replaces the values of a tensor of the weight files in the loaded model by
  /// rounded ones, so that later layers and `perplexity` use these. `values`
  /// have the same layout as the tensor.
  void replace(const std::string &tensor, const std::vector<float> &values);
  /// The perplexity of a text with the current values of the tensors.
  double perplexity(const CalibrationText &text);

  /// A text for people: the memory that the calibration needs in addition to
  /// weights and arena. This memory holds the hidden states of all rows, and
  /// the moments of one stage's products.
  std::string memoryText();

  rt::ThreadPool &threadPool() { return job.threadPool(); }

private:
  const rt::LoadedProgram *find(const std::string &name);
  const rt::LoadedProgram *findStage(int64_t layer, int64_t stage);
  void fillInputs(const rt::LoadedProgram &program, int64_t run);

  rt::Ranks ranks;
  rt::Job job;
  std::vector<const rt::LoadedProgram *> layerPrograms;
  int64_t layer = 0; ///< The index of the next layer.
  int64_t rowsOfRun, runs;
  rt::DataFeed feed;
  std::vector<std::vector<float>> hidden; ///< The hidden states of each run.
};

} // namespace heddle::quantize

#endif // HEDDLE_QUANTIZE_CALIBRATION_H
