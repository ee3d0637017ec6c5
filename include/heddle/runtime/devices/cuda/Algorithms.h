//===- Algorithms.h - Cached choices of cuBLASLt ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keeps the algorithms that cuBLASLt chose, so that later runs use the same
// ones: asking takes time, and another algorithm may give other bits.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_ALGORITHMS_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_ALGORITHMS_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/devices/cuda/CublasLtApi.h"

#include <map>
#include <optional>
#include <string>

namespace heddle::rt::cuda {

/// The algorithm that cuBLASLt chose for each product. There is one file for
/// each kind of GPU and version of the library. A damaged file, or one of
/// another format, counts as empty. Failure to write it is ignored.
class Algorithms {
public:
  /// Reads the file in `directory`. If that is "", nothing is kept.
  Algorithms(const std::string &directory, const std::string &gpu,
             const std::string &version);

  std::optional<cublaslt::Algorithm>
  find(const plan::LibraryProduct &what) const;
  void set(const plan::LibraryProduct &what,
           const cublaslt::Algorithm &algorithm);
  /// Writes the file atomically, if anything is new.
  void save();

private:
  void read();

  std::string path;
  bool isNew = false;
  /// The chosen algorithms, by the description of the product.
  std::map<std::string, cublaslt::Algorithm> chosen;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_ALGORITHMS_H
