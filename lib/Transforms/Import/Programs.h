//===- Programs.h - The programs that a strategy asks for -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lists the programs (such as training or decoding) that the settings of a
// compilation need, with their sizes. import-derive-programs builds them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_IMPORT_PROGRAMS_H
#define HEDDLE_LIB_TRANSFORMS_IMPORT_PROGRAMS_H

#include "dialects/Dist/Strategy.h"
#include "dialects/NN/NNDialect.h"

namespace heddle {

/// A program to derive from the forward function.
struct DerivedProgram {
  nn::ProgramKind kind;
  int64_t rows, tokens;
  bool dropout;
  bool keeps;         ///< Whether it dumps the values of `--keep`.
  std::string name;   ///< The name of the program's function.
  bool logits = true; ///< Whether an encoder also returns logits.

  bool hasLoss() const {
    return kind == nn::ProgramKind::Train || kind == nn::ProgramKind::Eval;
  }
  /// Whether the program computes only some tokens of a sequence, and reads the
  /// keys and values of earlier tokens from a cache.
  bool isCached() const {
    return kind == nn::ProgramKind::Prefill ||
           kind == nn::ProgramKind::Decode || kind == nn::ProgramKind::Score;
  }
  /// Whether the program returns the logits of only one token, whose position
  /// is the input `position`.
  bool takesRow() const {
    return kind == nn::ProgramKind::Generate ||
           kind == nn::ProgramKind::Prefill;
  }
};

/// The programs that the settings `strategy` need, for example for training.
/// Programs that generate or encode come in several sizes, of which the runtime
/// chooses the smallest that is large enough. `drops` says whether the forward
/// function has dropout.
/// `generates` says whether the model can generate tokens. `guesses` is the
/// number of drafted tokens that decode verifies for each sequence.
std::vector<DerivedProgram> programsOf(const dist::Strategy &strategy,
                                       bool drops, bool generates,
                                       int64_t guesses);

} // namespace heddle

#endif // HEDDLE_LIB_TRANSFORMS_IMPORT_PROGRAMS_H
