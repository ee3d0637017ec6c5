//===- PackWeights.h - Makes derived states of weights ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_PACKWEIGHTS_H
#define HEDDLE_RUNTIME_CORE_PACKWEIGHTS_H

#include "heddle/PlanFormat/PackedWeight.h"
#include "heddle/runtime/core/RankShard.h"

#include <vector>

namespace heddle::rt {

/// How the values of a group become codes: w = scale (q - zero). The scale is a
/// number of f16.
struct GroupCode {
  float scale = 0;
  int32_t zero = 0;
};

/// The code of a group of `count` values that rounds each to the nearest.
/// `even`: with a zero of 0. Then 8 bits take the codes -127 to 127, and 4 bits
/// all, the value of the largest magnitude being -8.
GroupCode codeOf(const float *values, int64_t count, int64_t bits, bool even);

/// The code of one value.
int32_t quantize(float value, GroupCode code, int64_t bits);

/// The codes of all groups of a weight, output by output of a group.
using GroupCodes = std::vector<GroupCode>;

/// `packed`, of the whole weight that has `shape`.
plan::PackedWeight wholeOf(plan::PackedWeight packed,
                           std::vector<int64_t> shape);

/// Whether ranks split the inputs that share a scale: then it takes the whole
/// weight to know the scale.
bool splitsGroups(const plan::PackedWeight &packed,
                  const plan::PackedWeight &whole);

/// The codes of outputs `begin` to `end` of a whole weight, in their places
/// among all: `codes` has groups() x outputs() elements.
void codesOfOutputs(const plan::PackedWeight &whole, const float *weight,
                    int64_t begin, int64_t end, GroupCodes &codes);

/// Of the codes of the whole weight, those of a rank's part, whose elements
/// `runs` are.
GroupCodes codesOfPart(const GroupCodes &codes,
                       const plan::PackedWeight &packed,
                       const plan::PackedWeight &whole,
                       const std::vector<ElementRange> &runs);

/// Writes panels `begin` to `end` of a derived state. `weight` has
/// `packed.shape`; `state` is the whole state: words in f32, bf16 or i32,
/// scales and zeros in f16. Codes are those of `given`, or of `codeOf` without
/// it.
void packPanels(const plan::PackedWeight &packed, const float *weight,
                int64_t begin, int64_t end, void *state,
                const GroupCodes &given = {});

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_PACKWEIGHTS_H
