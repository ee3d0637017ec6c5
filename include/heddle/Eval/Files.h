//===- Files.h - Files of the interpreter -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions that read and write files for the interpreter. They throw no
// exceptions, because the interpreter is compiled without them. This header
// must not include headers of LLVM or MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_FILES_H
#define HEDDLE_EVAL_FILES_H

#include "heddle/runtime/core/PackWeights.h"
#include "heddle/runtime/core/RankShard.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace heddle::eval {

/// A tensor in memory, with the element format of safetensors.
struct HostTensor {
  std::string name;
  std::string dtype; ///< The name of the element format, such as "F32".
  std::vector<int64_t> shape;
  std::vector<char> bytes;
};

/// Reads every tensor of a safetensors file. On failure, returns false and sets
/// `error`.
bool readTensors(const std::string &path, std::vector<HostTensor> &tensors,
                 Diagnostic &error);
/// Writes a safetensors file.
bool writeTensors(const std::string &path,
                  const std::vector<HostTensor> &tensors, Diagnostic &error);

/// A weight to read from files.
struct FileWeight {
  /// The tensors in the files that make up the weight.
  std::vector<plan::WeightSlice> pieces;
  /// How the weight is converted to a state of the model, either quantized or
  /// in the layout that kernels read; nullopt if the state is the weight
  /// itself.
  std::optional<plan::PackedWeight> packed;
  /// The caller sets `dtype` and `shape`; readWeights adds the elements.
  HostTensor tensor;
  /// Receives the scales and zero points if the weight is quantized in the
  /// file; see rt::SourceReader.
  rt::GroupScales codes;
};

/// Reads weights. `directory` has any value that `--weights` of a binary
/// accepts. A quantized weight in the files may have its input features in
/// another order than the model (GPTQ's g_idx). `orders` says which order each
/// weight must have; see plan::Weights::orders. `extended` is the table of
/// positions that is made longer.
bool readWeights(const std::string &directory,
                 const std::map<std::string, std::string> &orders,
                 const plan::ExtendedTable &extended,
                 std::vector<FileWeight> &weights, Diagnostic &error);

/// The initial values of a state with the shape `whole`. The runtime computes
/// the same values.
std::vector<float> initialValues(const plan::Init &init,
                                 const std::string &name,
                                 const std::vector<int64_t> &whole,
                                 uint64_t seed, int64_t count);

/// The elements that a rank stores, as ranges in the whole tensor; see
/// rt::RankShard.
bool partRuns(const plan::Placement &placement,
              const std::vector<int64_t> &shape, const plan::Mesh &mesh,
              int64_t rank, std::vector<rt::ElementRange> &runs,
              Diagnostic &error);

/// Asks the system for permission to use AMX tile registers, if the CPU has
/// them: compiled kernels may use them.
bool takeTiles(Diagnostic &error);

/// Allocates zeroed memory between inaccessible pages; null on failure.
std::shared_ptr<char> mapGuarded(int64_t bytes, Diagnostic &error);

} // namespace heddle::eval

#endif // HEDDLE_EVAL_FILES_H
