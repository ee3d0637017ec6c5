//===- Algorithms.h - What cuBLASLt chose, from run to run ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// The algorithms that cuBLASLt chose for products, in a file for each kind of
/// GPU and version of the library. A file that is damaged, or of another form,
/// counts as empty; one that cannot be written is left out.
class Algorithms {
public:
  /// Reads what is kept in `directory`; with an empty one nothing is kept.
  Algorithms(const std::string &directory, const std::string &gpu,
             const std::string &version);

  std::optional<cublaslt::Algorithm>
  find(const plan::LibraryProduct &what) const;
  void set(const plan::LibraryProduct &what,
           const cublaslt::Algorithm &algorithm);
  /// Writes the file, as a whole or not at all, if something is new.
  void save();

private:
  void read();

  std::string path;
  bool isNew = false;
  std::map<std::string, cublaslt::Algorithm> chosen; ///< By description.
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_ALGORITHMS_H
