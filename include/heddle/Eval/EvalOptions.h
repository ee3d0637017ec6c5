//===- EvalOptions.h - The flags of heddle eval -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_EVALOPTIONS_H
#define HEDDLE_EVAL_EVALOPTIONS_H

#include <cstdint>
#include <optional>
#include <string>

namespace heddle::eval {

/// The flags of `heddle eval`.
struct EvalOptions {
  std::string file;              ///< A module of any phase.
  std::string inputs;            ///< A safetensors file, by the ports' names.
  /// One, or some with commas in between, a step of each; then the last one's.
  std::string program = "train";
  int64_t steps = 1;
  std::string weights;           ///< As a binary's --weights.
  std::optional<uint64_t> seed;  ///< Random weights, and dropout.
  std::string precision = "f32"; ///< f32: as the types say; f64: no rounding.
  int64_t threads = 1;           ///< That compiled kernels run on.
  bool poison = false;           ///< Make the dead bytes of a plan NaN.
  bool ranks = false;            ///< Simulate all ranks of the module.
  std::string output;            ///< A safetensors file.
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_EVALOPTIONS_H
