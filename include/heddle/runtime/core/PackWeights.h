//===- PackWeights.h - Packs and quantizes weights --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packs weights into the layout of kernels, and quantizes them, when they are
// loaded. `heddle quantize` and the interpreter use it too.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_PACKWEIGHTS_H
#define HEDDLE_RUNTIME_CORE_PACKWEIGHTS_H

#include "heddle/PlanFormat/PackedWeight.h"
#include "heddle/runtime/core/RankShard.h"

#include <vector>

namespace heddle::rt {

/// The scale and zero point of a quantization group. A code q means the value
/// scale * (q - zero). The scale is a float that f16 represents exactly, since
/// the state stores it as f16.
struct GroupScale {
  float scale = 0;
  int32_t zero = 0;
};

/// Chooses the scale and zero point for a group of `count` values. With `even`,
/// quantization is symmetric: 8-bit codes are in -127 to 127. 4-bit codes then
/// use the full range, where the value with the largest magnitude gets the code
/// -8.
GroupScale scaleOf(const float *values, int64_t count, int64_t bits, bool even);

/// Returns the integer of `bits` bits that represents `value` best. `code` has
/// the scale and the zero point of the value's group.
int32_t quantize(float value, GroupScale code, int64_t bits);

/// Scales and zero points of all groups of a weight, as [groups][outputs].
using GroupScales = std::vector<GroupScale>;

/// `packed` says how kernels read a rank's shard of a weight. Returns the same
/// description for the unsharded weight, whose shape is `shape`.
plan::PackedWeight wholeOf(plan::PackedWeight packed,
                           std::vector<int64_t> shape);

/// Whether a quantization group, which is a number of inputs that share a
/// scale, is split over several ranks. Each of these ranks then needs the whole
/// weight to compute the scale.
bool splitsGroups(const plan::PackedWeight &packed,
                  const plan::PackedWeight &whole);

/// Computes the scales and zero points of the outputs `begin` to `end` of a
/// whole weight, and writes them to `codes`. `codes` has groups() x outputs()
/// elements: room for all outputs.
void scalesOfOutputs(const plan::PackedWeight &whole, const float *weight,
                     int64_t begin, int64_t end, GroupScales &codes);

/// Selects the scales and zero points of a rank's shard from those of the whole
/// weight, `codes`. `runs` are the ranges of elements of the shard.
GroupScales scalesOfShard(const GroupScales &codes,
                          const plan::PackedWeight &packed,
                          const plan::PackedWeight &whole,
                          const std::vector<ElementRange> &runs);

/// Writes the panels `begin` to `end` - 1 of the packed `weight`, which has the
/// shape `packed.shape`. `state` is the buffer for all panels, with elements of
/// type `type`: weights as floats, packed codes in i32, or scales or zero
/// points in f16. Uses the scales in `given`; if `given` is empty, `scaleOf`
/// computes the scales.
void packPanels(const plan::PackedWeight &packed, plan::DType type,
                const float *weight, int64_t begin, int64_t end, void *state,
                const GroupScales &given = {});

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_PACKWEIGHTS_H
