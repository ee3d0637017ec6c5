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
  std::string file; ///< The file with the module, after any phase.
  /// A safetensors file with inputs. The names of its tensors are the names of
  /// a program's inputs.
  std::string inputs;
  /// One or several programs, separated by commas. The first step runs the
  /// first program, and so on. Further steps run the last program again.
  std::string program = "train";
  int64_t steps = 1;
  std::string weights; ///< The weights, as `--weights` of a binary takes them.
  std::optional<uint64_t> seed; ///< The seed of random weights and dropout.
  /// "f32": every value is rounded to its type in the IR; "f64": values are not
  /// rounded.
  std::string precision = "f32";
  int64_t threads = 1; ///< The number of threads of compiled kernels.
  /// Whether to fill the bytes of a plan's buffers with NaN when the buffers
  /// are no longer in use.
  bool poison = false;
  bool ranks = false; ///< Whether to simulate all ranks of the module.
  std::string output; ///< The safetensors file that gets outputs and states.
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_EVALOPTIONS_H
