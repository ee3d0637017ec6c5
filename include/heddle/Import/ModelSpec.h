//===- ModelSpec.h - A model directory's content ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Everything about a model that is needed before IR is built: sizes,
// parameters, and the tensors of the weight files that fill them. Only headers
// of weight files are read.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_MODELSPEC_H
#define HEDDLE_IMPORT_MODELSPEC_H

#include "heddle/Import/Settings.h"
#include "heddle/PlanFormat/Plan.h"
#include "heddle/Weights/Source.h"
#include "heddle/runtime/io/CodedWeights.h"
#include <map>
#include <memory>

namespace heddle::config {

using plan::Init;

/// A parameter and the tensors that fill it.
struct ParameterSpec {
  std::string name; ///< Hugging Face's name, without the base model's prefix.
  std::vector<int64_t> shape;
  Init init;               ///< Its initial value if no weights are loaded.
  std::string shapeReason; ///< The shape for messages, as `[n_embd, 3 n_embd]`.
  weights::Source source;  ///< Its tensors in the weight files.
  bool decays = true;
  /// Segments of the last dimension, each of which is split among tensor ranks
  /// by itself. Empty: one segment.
  std::vector<int64_t> segments;
  bool outIn = false; ///< The matrix is stored as [out, in].
  bool isOfLayer = false;
  bool isCoded = false; ///< It is quantized in the weight files.
  /// The parameter that gives the order of a product's inputs; "" if they are
  /// in order.
  std::string order;
  bool isOrder = false; ///< This parameter is such an order, of integers.
};

/// A tensor of the weight files that is not used, with the reason.
struct IgnoredTensor {
  std::string name;
  std::string reason;
};

class FamilyModel;

/// Tokens that represent no text.
struct SpecialTokens {
  std::optional<int64_t> mask;
  std::vector<int64_t> all; ///< In ascending order.
};

/// A model, as the import reads it.
struct ModelSpec {
  std::string family; ///< `model_type` of config.json.
  std::string configFile;
  std::string configJson; ///< config.json on one line.
  std::vector<ExplainRow> configRows;
  /// Warnings for the user, one per line.
  std::vector<std::string> warnings;
  std::shared_ptr<const FamilyModel> model; ///< The forward function.
  int64_t layers = 1, width = 0;
  int64_t vocabSize = 0, maxPositions = 0;
  plan::Objective objective = plan::Objective::NextToken;
  /// Special tokens; set only for models that predict masked tokens.
  SpecialTokens tokens;
  std::string positionsKey; ///< The key that gives `maxPositions`.
  SourceLocation positionsLocation;

  bool random = false; ///< No weights: initialize from `seed`.
  uint64_t seed = 0;
  std::string directory;  ///< The absolute path of weights and tokenizer.
  std::string headerHash; ///< A hash of the weight files' headers.
  std::optional<io::CodeFormat> codes; ///< Set if the weight files are
                                       ///< The tensors of the weight files that
                                       ///< give an order of inputs (g_idx).
                                       ///< Each value names another tensor with
                                       ///< the same order, or is "" if the
                                       ///< inputs are in order. The program
                                       ///< relies on these orders when it
                                       ///< reorders activations.
  std::map<std::string, std::string> orders;
  /// Weights that must be dequantized, since their groups (g_idx) have
  /// different numbers of inputs.
  std::vector<std::string> unevenWeights;

  std::vector<ParameterSpec> parameters;
  /// The weight files have no head, as those of sentence encoders. The forward
  /// function then ends with hidden states.
  bool isHeadless = false;
  std::vector<IgnoredTensor> ignored;
};

struct ModelRequest {
  std::string path; ///< A Hugging Face directory or a config file.
  bool random = false;
  uint64_t seed = 0;
  std::string noDecay;   ///< Regular expression of parameter names without
                         ///< weight decay.
  bool isStrict = false; ///< Unknown keys of config.json are errors.
  /// Overrides the objective of the family or module.
  std::optional<plan::Objective> objective;
};

/// Reads config.json and the headers of the weights, and matches all tensors
/// with parameters. Throws UserError.
ModelSpec readModelSpec(const ModelRequest &request);

/// Finds the weights of a model whose parameters are known. `request.path` has
/// them, and the config.json to save with them. Throws UserError.
void findWeights(const ModelRequest &request, ModelSpec &spec);

/// Throws H0116 if `seq` is more than the model's positions, and H0110 if the
/// logits of a micro-batch have too many elements to be addressed.
void checkShapes(const ModelSpec &spec, int64_t microBatch, int64_t seq);

/// The coverage report: filled parameters, and ignored tensors with reasons.
std::string coverageReport(const ModelSpec &spec);

} // namespace heddle::config

#endif // HEDDLE_IMPORT_MODELSPEC_H
