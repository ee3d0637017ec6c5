//===- ModelSpec.h - A model directory as it was read -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What import needs to know of a model before any IR is built: its shape, its
// parameters, and which tensors of the weight files fill them. Only headers of
// weight files are read.
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

/// A parameter, and the tensors that fill it.
struct ParameterSpec {
  std::string name; ///< Hugging Face's, without the prefix of the base model.
  std::vector<int64_t> shape;
  Init init;               ///< Its first value when no weights are loaded.
  std::string shapeReason; ///< As `[n_embd, 3 n_embd]`, for messages.
  weights::Source source;  ///< In the weight files.
  bool decays = true;
  /// Parts of the last dimension that ranks split each for itself; none when it
  /// is one piece.
  std::vector<int64_t> segments;
  bool outIn = false; ///< A matrix that is stored [out, in].
  bool isOfLayer = false;
  bool isCoded = false; ///< The weight files have codes of it.
  /// The parameter that says which input stands at each place of a product's
  /// weight; none where they stand in turn.
  std::string order;
  bool isOrder = false; ///< It is one: of integers.
};

/// A tensor of the weight files that is not used, and why.
struct IgnoredTensor {
  std::string name;
  std::string reason;
};

class FamilyModel;

/// Tokens that mean no text.
struct SpecialTokens {
  std::optional<int64_t> mask;
  std::vector<int64_t> all; ///< In ascending order.
};

/// A model as import reads it.
struct ModelSpec {
  std::string family; ///< The `model_type` of config.json.
  std::string configFile;
  std::string configJson; ///< config.json, on one line.
  std::vector<ExplainRow> configRows;
  /// What whoever asked for the model should hear, a line each.
  std::vector<std::string> warnings;
  std::shared_ptr<const FamilyModel> model; ///< Its forward function.
  int64_t layers = 1, width = 0;
  int64_t vocabSize = 0, maxPositions = 0;
  plan::Objective objective = plan::Objective::NextToken;
  /// What the tokenizer's files say of tokens; only for masked ones.
  SpecialTokens tokens;
  std::string positionsKey; ///< The key that says `maxPositions`.
  SourceLocation positionsLocation;

  bool random = false; ///< No weights: initialise from `seed`.
  uint64_t seed = 0;
  std::string directory;  ///< Absolute; of the weights and the tokenizer.
  std::string headerHash; ///< Of the weight files' headers.
  std::optional<io::CodeFormat> codes; ///< Of the weight files.
  /// Tensors with orders of inputs that are as another one is, or with "" as
  /// inputs stand: what is multiplied with these weights depends on it.
  std::map<std::string, std::string> orders;
  /// Weights whose codes cannot stay, since their groups (g_idx) do not have as
  /// many inputs each.
  std::vector<std::string> unevenWeights;

  std::vector<ParameterSpec> parameters;
  /// The weight files have no head, as those of sentence encoders: the forward
  /// function ends with the hidden states.
  bool isHeadless = false;
  std::vector<IgnoredTensor> ignored;
};

struct ModelRequest {
  std::string path; ///< A Hugging Face directory, or a config file.
  bool random = false;
  uint64_t seed = 0;
  std::string noDecay;   ///< Regular expression over parameter names.
  bool isStrict = false; ///< Unknown keys of config.json are errors.
  /// In place of what the family or the module says.
  std::optional<plan::Objective> objective;
};

/// Reads config.json and the headers of the weights, and matches every tensor
/// with a parameter. Throws UserError.
ModelSpec readModelSpec(const ModelRequest &request);

/// Finds the weights of a model whose parameters are known: `request.path` says
/// where they, and the config.json to save with them, are. Throws UserError.
void findWeights(const ModelRequest &request, ModelSpec &spec);

/// Throws H0116 when `seq` is more than the positions of the model, and H0110
/// when the logits of a micro-batch would not be addressable.
void checkShapes(const ModelSpec &spec, int64_t microBatch, int64_t seq);

/// The coverage report: parameters filled, tensors ignored and why.
std::string coverageReport(const ModelSpec &spec);

} // namespace heddle::config

#endif // HEDDLE_IMPORT_MODELSPEC_H
