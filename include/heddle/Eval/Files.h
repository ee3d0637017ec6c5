//===- Files.h - What the interpreter reads and writes ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Readers and writers that throw, behind functions that do not, so that code
// without exceptions can call them. No LLVM or MLIR header may be included
// here.
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

/// A tensor in memory, as a safetensors file has it.
struct HostTensor {
  std::string name;
  std::string dtype; ///< As safetensors names it.
  std::vector<int64_t> shape;
  std::vector<char> bytes;
};

/// Reads every tensor of a safetensors file. False: `error` says why.
bool readTensors(const std::string &path, std::vector<HostTensor> &tensors,
                 Diagnostic &error);
/// Writes a safetensors file.
bool writeTensors(const std::string &path,
                  const std::vector<HostTensor> &tensors, Diagnostic &error);

/// A weight in files.
struct FileWeight {
  std::vector<plan::WeightSlice> pieces; ///< Where it stands.
  /// How it is packed, of the whole weight; none: it is not.
  std::optional<plan::PackedWeight> packed;
  HostTensor tensor;    ///< With `dtype` and `shape`; gets the elements.
  rt::GroupScales codes; ///< Gets those of the files, see rt::SourceReader.
};

/// Reads weights. `directory` is whatever `--weights` takes, `orders` are as
/// rt::requireOrders takes them.
bool readWeights(const std::string &directory,
                 const std::map<std::string, std::string> &orders,
                 std::vector<FileWeight> &weights, Diagnostic &error);

/// The first value of a state of the shape `whole`, as the runtime makes it.
std::vector<float> initialValues(const plan::Init &init,
                                 const std::string &name,
                                 const std::vector<int64_t> &whole,
                                 uint64_t seed, int64_t count);

/// Where the elements that a rank stores stand in the whole tensor; see
/// rt::RankShard.
bool partRuns(const plan::Placement &placement,
              const std::vector<int64_t> &shape, const plan::Mesh &mesh,
              int64_t rank, std::vector<rt::ElementRange> &runs,
              Diagnostic &error);

/// Asks the system for the tile registers of AMX, if the CPU has them: compiled
/// kernels may use them.
bool takeTiles(Diagnostic &error);

/// Zeroed memory between pages that fault; null when it cannot be had.
std::shared_ptr<char> mapGuarded(int64_t bytes, Diagnostic &error);

} // namespace heddle::eval

#endif // HEDDLE_EVAL_FILES_H
