//===- Algorithms.h - Cached choices of cuBLASLt ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keeps in a file the algorithms that cuBLASLt chose for matrix products, so
// that later runs use the same ones. Asking the library again takes time, and
// another algorithm may give other bits.
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

/// The algorithms that cuBLASLt chose, one for each product. They are kept in
/// one file for each kind of GPU and version of the library. If the file is
/// damaged or has another format, it counts as empty. If it cannot be written,
/// nothing is reported.
class Algorithms {
public:
  /// Reads the file in `directory` that has the algorithms for the GPU model
  /// `gpu` and the version `version` of cuBLASLt, if it exists. If `directory`
  /// is "", no file is read or written.
  Algorithms(const std::string &directory, const std::string &gpu,
             const std::string &version);

  std::optional<cublaslt::Algorithm>
  find(const plan::LibraryProduct &what) const;
  void set(const plan::LibraryProduct &what,
           const cublaslt::Algorithm &algorithm);
  /// Writes the file atomically, if an algorithm was added since it was read.
  void save();

private:
  void read();

  std::string path;
  bool isNew = false;
  /// The chosen algorithms. The key is the description of the product.
  std::map<std::string, cublaslt::Algorithm> chosen;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_ALGORITHMS_H
