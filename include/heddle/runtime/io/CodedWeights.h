//===- CodedWeights.h - Quantized weights of GPTQ and AWQ -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads int4 and int8 weights of GPTQ (AutoGPTQ, GPTQModel) and AWQ (AutoAWQ's
// "gemm"). A quantized matrix X consists of several tensors. `X.qweight` has
// codes packed into 32-bit words. `X.scales` has an f16 scale for each group of
// inputs and each output, and `X.qzeros` has a zero point for each of these.
// With GPTQ, `X.g_idx` may have the group of each input. A value is scale *
// (code - zero). CodedWeights.cpp unpacks the codes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_CODEDWEIGHTS_H
#define HEDDLE_RUNTIME_IO_CODEDWEIGHTS_H

#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/io/Safetensors.h"

#include <algorithm>
#include <string_view>

namespace heddle::io {

/// The format of a model's quantized matrices. `quantization_config` in
/// config.json, or quantize_config.json, describes it.
struct CodeFormat {
  enum class Kind { Gptq, Awq };
  Kind kind = Kind::Gptq;
  int64_t bits = 4;
  int64_t group = 0;   ///< How many inputs share a scale; 0: all inputs do.
  bool even = false;   ///< Every zero point is the middle of the codes' range.
  bool inOrder = true; ///< Input i belongs to group i / `group`: no desc_act.
  /// Whether the file stores each zero point minus 1, as format 1 of GPTQ does.
  bool storesLess = false;
};

/// Reads the format from `config`, or from a file of AutoGPTQ or AutoAWQ in the
/// directory. Returns none when the weights are not quantized. Throws H0376 for
/// a method or a parameter that is not supported.
std::optional<CodeFormat> readCodeFormat(const JsonValue &config,
                                         const std::string &directory);

/// The tensors of a quantized matrix [inputs, outputs].
struct CodedMatrix {
  CodeFormat format;
  TensorInfo words, zeros, scales;
  std::optional<TensorInfo> groupOfInput;
  int64_t inputs = 0, outputs = 0;
  bool isByGroup = false; ///< Inputs are read in the order of their groups.

  int64_t groupLength() const {
    return format.group == 0 ? inputs : format.group;
  }
  int64_t groups() const {
    return (inputs + groupLength() - 1) / groupLength();
  }
};

/// Which inputs of a quantized matrix share scales, and the order of the inputs
/// in the dequantized values.
struct InputGroups {
  /// Reads the group of each input from the tensor `groupOfInput` (GPTQ's
  /// g_idx). Throws H0377 if a group is out of range, or if the inputs are not
  /// in the order of their groups although `inOrder` of the format is true.
  InputGroups(const CodedMatrix &matrix, const WeightSet &weights);
  /// Throws H0377 unless all groups have the same number of inputs, which
  /// sorting by group needs.
  void requireAlike(const CodedMatrix &matrix) const;

  std::vector<int32_t> ofInput; ///< The index of each input's group.
  /// For each row of the dequantized matrix: the index of the input that the
  /// row belongs to.
  std::vector<int32_t> inputAt;
  /// Whether all groups (inputs of the matrix that share a scale) have the same
  /// number of inputs, so that the inputs can be sorted by group.
  bool areAlike = true;
};

/// Dequantizes one matrix: reads its scales, zero points and codes.
class CodeReader {
public:
  /// Reads the scales, the zero points and the groups of inputs. Throws H0377
  /// if the groups are invalid or have different numbers of inputs.
  CodeReader(const CodedMatrix &matrix, const WeightSet &weights);

  float scale(int64_t group, int64_t output) const {
    return scales[group * matrix.outputs + output];
  }
  /// Returns the zero point for an output and a group of inputs, as an unsigned
  /// code.
  int32_t zero(int64_t group, int64_t output) const;
  /// Reads and dequantizes the codes. The result has the shape [outputs,
  /// inputs] if `transposed`, else [inputs, outputs].
  std::vector<float> values(bool transposed) const;

private:
  const CodedMatrix &matrix;
  const WeightSet &weights;
  std::vector<uint32_t> zeros;
  std::vector<float> scales; ///< Scales, with the shape [groups, outputs].
  InputGroups groups;
  uint32_t field(uint32_t word, int64_t index) const;
  int32_t code(const std::vector<uint32_t> &words, int64_t input,
               int64_t output) const;
};

/// Suffix that openModelWeights adds to the name of a matrix whose inputs it
/// sorts by group.
inline constexpr std::string_view byGroupEnd = ".by_group";

/// Returns the name that a matrix has in files: `name` without the suffix
/// `byGroupEnd`.
inline std::string nameInFile(std::string name) {
  size_t end = name.size() - std::min(name.size(), byGroupEnd.size());
  if (name.compare(end, std::string::npos, byGroupEnd) == 0)
    name.erase(end);
  return name;
}

/// Opens the weights of a model's directory, as `openWeights` does. A quantized
/// matrix X appears twice, as `X.weight` [outputs, inputs] and as `X.qweight`
/// [inputs, outputs]. Both are of type F32, and their field `coded` names the
/// stored tensors. The scales and zeros of X do not appear.
///
/// If inputs are not in the order of their groups (desc_act), X also appears
/// with sorted inputs, as `X.weight.by_group` and `X.qweight.by_group`. Then
/// the tensor `X.order`, I32 [inputs], has the index of the input at each row.
///
/// Throws H0376, H0377 for tensors whose shapes do not fit together, and H0399
/// where no file describes the format of the codes.
WeightSet openModelWeights(const std::string &path);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_CODEDWEIGHTS_H
