//===- Draft.h - A second model in a binary ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A draft guesses tokens for the model of a binary. It has a plan and kernels
// of its own for each of the binary's targets.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_DRAFT_H
#define HEDDLE_PLANFORMAT_DRAFT_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::plan {

/// The name of the section that the draft has beside one of the model.
inline std::string draftSectionName(const std::string &name) {
  return name + ".draft";
}

/// Tokens that a program `decode` of a plan computes of each of its texts
/// behind the last one: guesses of the draft, which is given as many rows; 0
/// where the plan has no such program.
int64_t mostGuesses(const Plan &plan);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_DRAFT_H
