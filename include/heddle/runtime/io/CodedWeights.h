//===- CodedWeights.h - Matrices that files hold as codes -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The layouts of GPTQ (of AutoGPTQ and GPTQModel) and AWQ (of AutoAWQ, "gemm"):
// for a product X, `X.qweight` has codes in words of 32 bits, `X.scales` a
// scale in f16 for every group of inputs and every output, `X.qzeros` zeros,
// and with GPTQ `X.g_idx` may have the group of each input. A value is scale
// (code - zero).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_CODEDWEIGHTS_H
#define HEDDLE_RUNTIME_IO_CODEDWEIGHTS_H

#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/io/Safetensors.h"

#include <algorithm>
#include <string_view>

namespace heddle::io {

/// What `quantization_config` of a config.json says, or quantize_config.json.
struct CodeFormat {
  enum class Kind { Gptq, Awq };
  Kind kind = Kind::Gptq;
  int64_t bits = 4;
  int64_t group = 0;       ///< Inputs that share a scale; 0: all.
  bool even = false;       ///< All zeros are in the middle of the codes.
  bool inOrder = true;     ///< Input i is of group i / group: no desc_act.
  bool storesLess = false; ///< A zero is stored less 1, as by GPTQ's format 1.
};

/// The format of the weights beside `config`, which it says itself, or a file
/// of AutoGPTQ or AutoAWQ in the directory does; none when they are no codes.
/// Throws H0376 for a method, or numbers of it, that cannot be read.
std::optional<CodeFormat> readCodeFormat(const JsonValue &config,
                                         const std::string &directory);

/// The tensors of one matrix of `inputs` x `outputs` codes.
struct CodedMatrix {
  CodeFormat format;
  TensorInfo words, zeros, scales;
  std::optional<TensorInfo> groupOfInput;
  int64_t inputs = 0, outputs = 0;
  bool isByGroup = false; ///< Read with its inputs in the order of groups.

  int64_t groupLength() const {
    return format.group == 0 ? inputs : format.group;
  }
  int64_t groups() const {
    return (inputs + groupLength() - 1) / groupLength();
  }
};

/// Which inputs of a matrix of codes share scales, and in which order its
/// values have them.
struct InputGroups {
  /// Throws H0377 when the groups are not as the format says.
  InputGroups(const CodedMatrix &matrix, const WeightSet &weights);
  /// Throws H0377 where inputs cannot be in the order of groups.
  void requireAlike(const CodedMatrix &matrix) const;

  std::vector<int32_t> ofInput; ///< The group of each input.
  std::vector<int32_t> inputAt; ///< The input at each place of the values.
  /// Groups are of as many inputs each, where inputs are in their order.
  bool areAlike = true;
};

/// The scales and zeros of a matrix of codes, and its values.
class CodeReader {
public:
  /// Reads all but the codes. Throws as InputGroups does.
  CodeReader(const CodedMatrix &matrix, const WeightSet &weights);

  float scale(int64_t group, int64_t output) const {
    return scales[group * matrix.outputs + output];
  }
  /// As a code, from 0 on.
  int32_t zero(int64_t group, int64_t output) const;
  /// Reads the codes. [inputs, outputs], or with `turned` [outputs, inputs].
  std::vector<float> values(bool turned) const;

private:
  const CodedMatrix &matrix;
  const WeightSet &weights;
  std::vector<uint32_t> zeros;
  std::vector<float> scales; ///< [groups, outputs].
  InputGroups groups;
  uint32_t field(uint32_t word, int64_t index) const;
  int32_t code(const std::vector<uint32_t> &words, int64_t input,
               int64_t output) const;
};

/// What the name of a matrix ends with whose inputs are in the order of groups.
inline constexpr std::string_view byGroupEnd = ".by_group";

/// The name that a matrix has in files.
inline std::string nameInFile(std::string name) {
  size_t end = name.size() - std::min(name.size(), byGroupEnd.size());
  if (name.compare(end, std::string::npos, byGroupEnd) == 0)
    name.erase(end);
  return name;
}

/// The weights of a model's directory, as `openWeights`. Where they are codes,
/// a matrix X is there as `X.weight` [outputs, inputs] and as `X.qweight`
/// [inputs, outputs], of type F32 and with `coded`; its other tensors are not.
/// If its inputs need not be in the order of their groups (desc_act), it is
/// there in that order too, as `X.weight.by_group` and `X.qweight.by_group`,
/// with `X.order`: which input stands at each place, I32 [inputs]. Throws
/// H0376, H0377 for tensors whose shapes do not fit together, and H0399 where
/// nothing says how codes were made.
WeightSet openModelWeights(const std::string &path);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_CODEDWEIGHTS_H
