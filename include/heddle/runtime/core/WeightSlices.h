//===- WeightSlices.h - Elements of a state in weight files -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Iterates over the elements of a state that come from tensors of the weight
// files.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_WEIGHTSLICES_H
#define HEDDLE_RUNTIME_CORE_WEIGHTSLICES_H

#include "heddle/PlanFormat/WeightSlice.h"
#include <functional>

namespace heddle::rt {

/// Elements that are consecutive in the state, and `stride` apart in one
/// tensor.
struct WeightRange {
  const plan::WeightSlice *piece = nullptr;
  /// The index of the first element in the state, and in the tensor.
  int64_t state = 0, tensor = 0;
  int64_t stride = 1;
  int64_t count = 0;
};

/// Divides the elements first .. first + count of a state into ranges, and
/// calls `visit` for each range, in order. `pieces` are the slices of weight
/// tensors that form the state. Throws H0385 if some of these elements are in
/// no slice.
void forEachRun(const std::vector<plan::WeightSlice> &pieces, int64_t first,
                int64_t count,
                const std::function<void(const WeightRange &)> &visit);

/// The slice for a state that equals the whole tensor `tensor` of the weight
/// files. Such a state has no other slices.
plan::WeightSlice wholeTensor(const std::string &tensor,
                              const std::vector<int64_t> &shape);

/// Throws H0385 unless all elements of the slices are in their tensors.
void checkWeightSlices(const std::vector<plan::WeightSlice> &pieces);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_WEIGHTSLICES_H
