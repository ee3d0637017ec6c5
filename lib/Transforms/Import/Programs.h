//===- Programs.h - The programs that a strategy asks for -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_IMPORT_PROGRAMS_H
#define HEDDLE_LIB_TRANSFORMS_IMPORT_PROGRAMS_H

#include "dialects/Dist/Strategy.h"
#include "dialects/NN/NNDialect.h"

namespace heddle {

/// What a program makes of the forward function.
struct DerivedProgram {
  nn::ProgramKind kind;
  int64_t rows, tokens;
  bool dropout;
  bool keeps;         ///< Honours --keep.
  std::string name;   ///< Of its function.
  bool logits = true; ///< Of one that encodes: gives them too.

  bool hasLoss() const {
    return kind == nn::ProgramKind::Train || kind == nn::ProgramKind::Eval;
  }
  /// Sees a part of a text, and the tokens before it in a cache.
  bool isCached() const {
    return kind == nn::ProgramKind::Prefill ||
           kind == nn::ProgramKind::Decode || kind == nn::ProgramKind::Score;
  }
  /// Gives the logits of the token that the port `position` says.
  bool takesRow() const {
    return kind == nn::ProgramKind::Generate ||
           kind == nn::ProgramKind::Prefill;
  }
};

/// The programs of a strategy's mode. Those that continue or encode texts are
/// of several sizes: the smallest that has room is run. `drops`: the forward
/// function has a dropout; `generates`: it can continue texts. Of a text decode
/// computes the last token and so many `guesses`.
std::vector<DerivedProgram> programsOf(const dist::Strategy &strategy,
                                       bool drops, bool generates,
                                       int64_t guesses);

} // namespace heddle

#endif // HEDDLE_LIB_TRANSFORMS_IMPORT_PROGRAMS_H
