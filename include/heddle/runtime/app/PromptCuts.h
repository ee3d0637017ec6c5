//===- PromptCuts.h - Divide prompts over compiled programs -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Divides a prompt over the compiled prefill programs. CompiledEngine uses it
// for each chunk of a prompt.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_PROMPTCUTS_H
#define HEDDLE_RUNTIME_APP_PROMPTCUTS_H

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// Finds the cheapest sequence of prefill programs for a number of tokens. A
/// program always computes its full number of tokens and reads all weights. So,
/// on a CPU, 130 tokens run as 128 and 16 rather than 512.
class PromptCuts {
public:
  /// The number of tokens that a program computes, and the cost of running it
  /// once, in any unit.
  struct Program {
    int64_t tokens = 0;
    double cost = 0;
  };

  PromptCuts() = default;
  /// `programs` must be sorted by tokens, smallest first.
  explicit PromptCuts(const std::vector<Program> &programs);

  /// The largest number of tokens in a chunk of a prompt.
  int64_t most() const { return int64_t(first.size()) - 1; }
  /// Returns the index of the program to run first for a chunk of `tokens`
  /// tokens (from 1 to `most()`). If that program computes fewer tokens, call
  /// this function again for the remaining tokens.
  size_t firstOf(int64_t tokens) const { return first[tokens]; }

private:
  /// first[n] is the index of the program to run first for a chunk of n tokens.
  std::vector<size_t> first;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_PROMPTCUTS_H
