//===- EvalOptions.h - The flags of `heddle eval` ---------------*- C++ -*-===//
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
  std::string file;   ///< A module after any phase.
  std::string inputs; ///< A safetensors file; names are ports.
  /// One or several programs, separated by commas. Each step runs the next one;
  /// further steps repeat the last.
  std::string program = "train";
  int64_t steps = 1;
  std::string weights;          ///< As the --weights of a binary.
  std::optional<uint64_t> seed; ///< For random weights and dropout.
  /// f32: round as the IR's types say; f64: no rounding.
  std::string precision = "f32";
  int64_t threads = 1;           ///< For compiled kernels.
  bool poison = false;           ///< Fill a plan's dead bytes with NaN.
  bool ranks = false;            ///< Simulate all ranks of the module.
  std::string output;            ///< A safetensors file.
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_EVALOPTIONS_H
