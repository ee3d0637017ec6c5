//===- PromptCuts.h - Prompts as runs of programs ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_PROMPTCUTS_H
#define HEDDLE_RUNTIME_APP_PROMPTCUTS_H

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// Which programs compute a part of a prompt, one after the other, at the
/// least cost. A program computes all of its tokens, whether they are there or
/// not, and reads every weight: so, on a CPU, 130 tokens are 128 and 16, not
/// 512.
class PromptCuts {
public:
  /// A program that computes so many tokens at once, and what a run takes, in
  /// any unit.
  struct Program {
    int64_t tokens = 0;
    double cost = 0;
  };

  PromptCuts() = default;
  /// The programs, the smallest first.
  explicit PromptCuts(const std::vector<Program> &programs);

  /// The most tokens that are cut.
  int64_t most() const { return int64_t(first.size()) - 1; }
  /// Which of the programs computes the first of 1 to `most()` tokens: all of
  /// them, if they are no more than it has.
  size_t firstOf(int64_t tokens) const { return first[tokens]; }

private:
  std::vector<size_t> first; ///< By tokens.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_PROMPTCUTS_H
