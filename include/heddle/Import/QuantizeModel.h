//===- QuantizeModel.h - Writes a model with codes --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_QUANTIZEMODEL_H
#define HEDDLE_IMPORT_QUANTIZEMODEL_H

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::config {

struct QuantizeRequest {
  std::string model;  ///< A Hugging Face directory.
  std::string output; ///< A directory that does not exist yet or is empty.
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
};

struct QuantizeReport {
  std::vector<QuantizedWeight> weights;
  int64_t bytesBefore = 0, bytesAfter = 0; ///< Of all tensors.
  double error = 0;                        ///< Over all weights that changed.
};

/// Writes the model with codes for the matrices of its layers, each value
/// rounded to the nearest, in GPTQ's layout (CodedWeights.h) with a
/// `quantization_config`. Embeddings, norms, biases and the head stay as they
/// are. Throws H0152 for a weight whose sizes codes cannot have.
QuantizeReport quantizeModel(const QuantizeRequest &request);

} // namespace heddle::config

#endif // HEDDLE_IMPORT_QUANTIZEMODEL_H
