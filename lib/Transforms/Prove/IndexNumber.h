//===- IndexNumber.h - Indices of a plan as linear functions ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic on the indices that select parts of buffers, with which
// ProgramTraces.cpp computes the addresses of accesses.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PROVE_INDEXNUMBER_H
#define HEDDLE_LIB_TRANSFORMS_PROVE_INDEXNUMBER_H

#include "heddle/Transforms/Prove/Traces.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace heddle::prove {

/// The bound at which arithmetic on indices saturates. It is larger than every
/// buffer and plan, so a saturated index is out of bounds. Its product with the
/// number of an iteration does not overflow.
inline constexpr int64_t tooMany = int64_t(1) << 42;

inline int64_t product(int64_t a, int64_t b) {
  int64_t result = 0;
  if (llvm::MulOverflow(a, b, result))
    result = (a < 0) == (b < 0) ? tooMany : -tooMany;
  return std::clamp(result, -tooMany, tooMany);
}

inline int64_t sum(int64_t a, int64_t b) {
  return std::clamp(a + b, -tooMany, tooMany);
}

/// The part of an index that depends on the rank: a sum of the rank's
/// coordinates along lists of mesh axes, each multiplied by a factor.
using RankTerm = std::map<std::vector<std::string>, int64_t>;

/// An index as a linear function of the loop iteration, the rank and the slot
/// (index of a micro-batch's entry in a state that saves values). The
/// function's coefficients are known when a plan is loaded.
struct Number {
  int64_t constant = 0, perIteration = 0, perSlot = 0;
  RankTerm ofRank;

  bool isConstant() const {
    return perIteration == 0 && perSlot == 0 && ofRank.empty();
  }
  Number times(int64_t factor) const {
    Number scaled = *this;
    for (int64_t *own :
         {&scaled.constant, &scaled.perIteration, &scaled.perSlot})
      *own = product(*own, factor);
    for (auto &[axes, own] : scaled.ofRank)
      own = product(own, factor);
    return scaled;
  }
  Number plus(const Number &other) const {
    Number both = *this;
    both.constant = sum(constant, other.constant);
    both.perIteration = sum(perIteration, other.perIteration);
    both.perSlot = sum(perSlot, other.perSlot);
    for (const auto &[axes, factor] : other.ofRank)
      both.ofRank[axes] = sum(both.ofRank[axes], factor);
    return both;
  }
};

inline Axes axesOf(const RankTerm &ofRank) {
  Axes axes = 0;
  for (const auto &[names, factor] : ofRank)
    axes |= prove::axisBits(names);
  return axes;
}

} // namespace heddle::prove

#endif // HEDDLE_LIB_TRANSFORMS_PROVE_INDEXNUMBER_H
