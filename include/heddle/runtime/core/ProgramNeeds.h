//===- ProgramNeeds.h - What a run of a program takes -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_PROGRAMNEEDS_H
#define HEDDLE_RUNTIME_CORE_PROGRAMNEEDS_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::rt {

/// What one run of a program launches, and what of the states it uses.
struct ProgramNeeds {
  std::vector<int64_t> launches; ///< Of each kernel of the plan.
  /// Bytes of states but the cache that kernels use: each byte once, and of a
  /// state no more than its kernel moves.
  double stateBytes = 0;
  /// Bytes of the cache for one position of one text: 0 where none is used.
  double cacheBytes = 0;
};

/// Those of a program of the plan's selected stage.
ProgramNeeds needsOf(const plan::Plan &plan, const plan::Program &program);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_PROGRAMNEEDS_H
