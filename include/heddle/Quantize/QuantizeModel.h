//===- QuantizeModel.h - Writes a model with codes --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_QUANTIZE_QUANTIZEMODEL_H
#define HEDDLE_QUANTIZE_QUANTIZEMODEL_H

#include "heddle/Quantize/Calibration.h"

namespace heddle::quantize {

/// How values become codes.
enum class Method {
  Nearest, ///< `rtn`: each is rounded to the nearest.
  Gptq,    ///< Later inputs make up for the errors of those before them.
};

struct QuantizeRequest {
  std::string model;  ///< A Hugging Face directory.
  std::string output; ///< A directory that does not exist yet or is empty.
  Method method = Method::Nearest;
  GptqOptions gptq;
  /// With `Gptq`: round the products of a layer one after the other. The
  /// calibration is made for it.
  bool sequential = false;
  int64_t bits = 4;   ///< Of a code: 8 or 4.
  int64_t group = 64; ///< Inputs that share a scale; 0: all.
  bool zeros = false; ///< Each group has a zero; else it is in the middle.
  std::vector<std::string> keep; ///< Patterns of weights that stay.
};

/// What became of one weight.
struct QuantizedWeight {
  std::string name;           ///< Of the tensor.
  std::vector<int64_t> shape; ///< Inputs, outputs.
  int64_t bytesBefore = 0, bytesAfter = 0;
  double error = 0; ///< Norm of the differences by norm of the weight.
  Method method = Method::Nearest;
  /// With a calibration, of a product's weight: norm of the differences of what
  /// it computes by norm of what it computes.
  std::optional<double> outputError;
};

struct QuantizeReport {
  std::vector<QuantizedWeight> weights;
  int64_t bytesBefore = 0, bytesAfter = 0; ///< Of all tensors.
  double error = 0;                        ///< Over all weights that changed.
  std::vector<std::string> warnings;       ///< Of the reader of the model.
};

/// Throws H0152 for a model with codes, and for a weight whose sizes codes
/// cannot have.
void checkQuantizable(const QuantizeRequest &request);

/// Writes the model with codes for the matrices of its layers, in GPTQ's layout
/// (CodedWeights.h) with a `quantization_config`. Embeddings, norms, biases and
/// the head stay as they are. With a calibration, which `Method::Gptq` needs,
/// layers are rounded in their order, each with what it reads when those before
/// it are codes, and so are the stages of a layer that the calibration has; in
/// the end the calibration has the values of the codes. One without rows is for
/// these values alone. What is no weight of a product is rounded to the
/// nearest. Throws as `checkQuantizable`.
QuantizeReport quantizeModel(const QuantizeRequest &request,
                             Calibration *calibration = nullptr);

} // namespace heddle::quantize

#endif // HEDDLE_QUANTIZE_QUANTIZEMODEL_H
