//===- QuantizeModel.h - Writes a quantized model ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `heddle quantize`: writes a Hugging Face model whose weights are int8 or int4
// codes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_QUANTIZE_QUANTIZEMODEL_H
#define HEDDLE_QUANTIZE_QUANTIZEMODEL_H

#include "heddle/Quantize/Calibration.h"

namespace heddle::quantize {

/// The algorithm that rounds weights.
enum class Method {
  Nearest, ///< `rtn`: round each value to the nearest.
  Gptq,    ///< `gptq`: later inputs correct the errors of earlier ones.
};

struct QuantizeRequest {
  std::string model;  ///< The directory of a Hugging Face model.
  std::string output; ///< A directory that does not exist or is empty.
  Method method = Method::Nearest;
  GptqOptions gptq;
  /// With `Gptq`: whether to round the products of a layer one after the other,
  /// each with inputs that are computed from the weights rounded before. The
  /// calibration's binary must be compiled for this.
  bool sequential = false;
  int64_t bits = 4;   ///< Bits of a quantized value: 8 or 4.
  int64_t group = 64; ///< Inputs that share a scale; 0: all.
  /// Whether each group of inputs has a zero point. Otherwise the middle code
  /// means zero.
  bool zeros = false;
  /// Patterns of names. Weights whose names match a pattern are not quantized.
  std::vector<std::string> keep;
};

/// The result for one weight.
struct QuantizedWeight {
  std::string name;           ///< The tensor's name.
  std::vector<int64_t> shape; ///< Inputs, outputs.
  int64_t bytesBefore = 0, bytesAfter = 0;
  /// The norm of the rounding errors, divided by the norm of the weight.
  double error = 0;
  Method method = Method::Nearest;
  /// Only with a calibration, for the weight of a product: the norm of the
  /// errors of the product's results, divided by the norm of the results.
  std::optional<double> outputError;
};

struct QuantizeReport {
  std::vector<QuantizedWeight> weights;
  int64_t bytesBefore = 0, bytesAfter = 0; ///< Sums over all tensors.
  double error = 0;                  ///< Over all weights that are quantized.
  std::vector<std::string> warnings; ///< Warnings of the model's reader.
};

/// Throws H0152 if the model is already quantized, or if a weight has sizes
/// that the codes cannot represent.
void checkQuantizable(const QuantizeRequest &request);

/// Writes the model with quantized matrices of its layers, in GPTQ's layout
/// (CodedWeights.h) with a `quantization_config`. Embeddings, norms, biases and
/// the head are not quantized.
///
/// `Method::Gptq` needs a calibration. It rounds the layers in order, so that
/// the inputs of a layer are computed by the rounded layers before it. Weights
/// that belong to no product are rounded to the nearest.
///
/// On return, `calibration` has the rounded values, so that the caller can
/// compute the perplexity of the quantized model. A calibration without rows
/// serves only that purpose. Throws as `checkQuantizable`.
QuantizeReport quantizeModel(const QuantizeRequest &request,
                             Calibration *calibration = nullptr);

} // namespace heddle::quantize

#endif // HEDDLE_QUANTIZE_QUANTIZEMODEL_H
