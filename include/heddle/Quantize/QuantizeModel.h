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
  /// GPTQ: each rounding error is corrected by changes of the weights that are
  /// rounded later.
  Gptq,
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
  int64_t bits = 4; ///< Bits of a quantized value: 8 or 4.
  /// The number of inputs that share a scale; 0: all inputs.
  int64_t group = 64;
  /// Whether each group of inputs has a zero point. Otherwise the middle code
  /// means zero.
  bool zeros = false;
  /// Patterns of names. Weights whose names match a pattern are not quantized.
  std::vector<std::string> keep;
};

/// The result for one weight.
struct QuantizedWeight {
  std::string name;           ///< The name of the weight's tensor.
  std::vector<int64_t> shape; ///< The numbers of inputs and outputs.
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
  /// The bytes of all tensors of the model before and after quantization.
  int64_t bytesBefore = 0, bytesAfter = 0;
  /// The norm of the rounding errors of all quantized weights together, divided
  /// by the norm of these weights.
  double error = 0;
  std::vector<std::string> warnings; ///< Warnings from reading the model.
};

/// Throws H0152 if the model is already quantized, or if the shape of a weight
/// does not fit the quantized format. Its numbers of inputs and outputs must be
/// multiples of the number of quantized values in a 32-bit word. The number of
/// inputs must also be a multiple of the group size.
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
/// compute the perplexity of the quantized model. If the calibration has no
/// rows of tokens, it only receives these values, and all weights are rounded
/// to the nearest. Throws as `checkQuantizable`.
QuantizeReport quantizeModel(const QuantizeRequest &request,
                             Calibration *calibration = nullptr);

} // namespace heddle::quantize

#endif // HEDDLE_QUANTIZE_QUANTIZEMODEL_H
