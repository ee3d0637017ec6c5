//===- Draft.h - The draft model in a binary --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The draft model of speculative decoding. A binary may hold one, with a plan
// and kernels of its own for each target.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_DRAFT_H
#define HEDDLE_PLANFORMAT_DRAFT_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::plan {

/// Returns the name of the ELF section that is the draft model's counterpart of
/// the main model's section `name`.
inline std::string draftSectionName(const std::string &name) {
  return name + ".draft";
}

/// The number of guessed tokens that the plan's program `decode` verifies for
/// each sequence; 0 without such a program.
int64_t mostGuesses(const Plan &plan);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_DRAFT_H
