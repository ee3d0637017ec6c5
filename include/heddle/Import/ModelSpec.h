//===- ModelSpec.h - A model directory's content ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The description of a model, before IR is built: sizes, parameters, and the
// tensors of the weight files that fill the parameters. Only the headers of the
// weight files are read.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_MODELSPEC_H
#define HEDDLE_IMPORT_MODELSPEC_H

#include "heddle/AttentionLayout/AttentionLayout.h"
#include "heddle/Import/Settings.h"
#include "heddle/PlanFormat/Plan.h"
#include "heddle/Settings/PositionExtension.h"
#include "heddle/Weights/Source.h"
#include "heddle/runtime/io/CodedWeights.h"
#include <map>
#include <memory>

namespace heddle::config {

using plan::Init;

/// A parameter, and the tensors of the weight files from which it is loaded.
struct ParameterSpec {
  std::string name; ///< Hugging Face's name, without the base model's prefix.
  std::vector<int64_t> shape;
  Init init;               ///< Its initial value if no weights are loaded.
  std::string shapeReason; ///< The shape for messages, as `[n_embd, 3 n_embd]`.
  weights::Source source;  ///< Its tensors in the weight files.
  bool decays = true;
  /// Segments of the last dimension, for example q, k and v side by side. Each
  /// segment is split among tensor ranks separately. If empty, the dimension is
  /// one segment.
  std::vector<int64_t> segments;
  bool outIn = false; ///< The matrix is stored as [out, in].
  bool isOfLayer = false;
  bool isCoded = false; ///< It is quantized in the weight files.
  /// If the parameter is a quantized weight whose inputs were sorted by group:
  /// the name of another parameter, which holds the permutation. Otherwise "".
  std::string order;
  bool isOrder = false; ///< This parameter is an order of inputs (integers).
};

/// A tensor of the weight files that is not used, and the reason why it may be
/// ignored.
struct IgnoredTensor {
  std::string name;
  std::string reason;
};

class FamilyModel;

/// Tokens that represent no text, such as the mask token or padding.
struct SpecialTokens {
  std::optional<int64_t> mask;
  std::vector<int64_t> all; ///< Ids of all special tokens, ascending.
};

/// The description of a model, as the import phase reads it.
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
  /// The special tokens, which training never masks. Set only for models that
  /// predict masked tokens.
  SpecialTokens tokens;
  std::string positionsKey; ///< config.json's key for `maxPositions`.
  SourceLocation positionsLocation;
  /// The table of positions that loading extends, if the user asks for that.
  plan::ExtendedTable extended;

  bool random = false; ///< Without weight files: initialize from `seed`.
  uint64_t seed = 0;
  std::string directory;  ///< The absolute path of weights and tokenizer.
  std::string headerHash; ///< A hash of the weight files' headers.
  /// How the weights in the files are quantized; empty if they are not.
  std::optional<io::CodeFormat> codes;
  /// The permutations of inputs (GPTQ's g_idx) that the program assumes, so
  /// that the runtime can check the weight files. The key is the name of a
  /// tensor that has a permutation. The value is the name of another tensor
  /// that must have the same permutation, or "" if the permutation must be the
  /// identity.
  std::map<std::string, std::string> orders;
  /// Weights that must be dequantized, because their quantization groups
  /// (g_idx) have different numbers of inputs.
  std::vector<std::string> unevenWeights;

  std::vector<ParameterSpec> parameters;
  /// The layout of block-sparse attention of each layer; null: none. Empty if
  /// no layer has one. Layers may share a layout.
  std::vector<std::shared_ptr<const layouts::AttentionLayout>> layouts;
  /// Whether the weight files contain no head, as is usual for sentence
  /// encoders. The forward function then ends with hidden states instead of
  /// logits.
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
  /// The training objective that the user chose. It replaces the default
  /// objective of the family or module.
  std::optional<plan::Objective> objective;
  std::optional<PositionExtension> extension; ///< More positions for the model.
};

/// Reads config.json and the headers of the weight files, and finds the
/// parameter for each tensor. Throws UserError.
ModelSpec readModelSpec(const ModelRequest &request);

/// Finds the weights of a model whose parameters are known already.
/// `request.path` is the directory with the weights and a config.json. That
/// config.json is saved together with trained weights. Throws UserError.
void findWeights(const ModelRequest &request, ModelSpec &spec);

/// Checks the sizes of a program. Throws H0116 if `seq` is larger than the
/// number of positions of the model. Throws H0110 if the logits of a
/// micro-batch have too many elements to be addressed.
void checkShapes(const ModelSpec &spec, int64_t microBatch, int64_t seq);
/// Returns the end of a help text that advises to extend the model's table of
/// positions; "" if the model has none.
std::string orExtendPositions(const ModelSpec &spec, int64_t positions);

/// Reads or makes the layouts of block-sparse attention that the settings name.
/// Returns warnings, one per element. Throws H0143 if a layout does not suit
/// the model, and the errors of layouts::makeLayout and layouts::readLayoutFor.
std::vector<std::string> findLayouts(const ResolvedSettings &settings,
                                     ModelSpec &spec);

/// Returns the layouts of the model's layers, each once, in the order of their
/// first layers. The name of a layout is that of the state that holds it.
std::vector<plan::LayoutUse> layoutUses(const ModelSpec &spec);
/// The name of the state that holds the layout number `number` of them.
std::string layoutName(size_t number);

/// Returns the report of which parameters the weight files fill, and which of
/// their tensors are ignored, with reasons.
std::string coverageReport(const ModelSpec &spec);

} // namespace heddle::config

#endif // HEDDLE_IMPORT_MODELSPEC_H
