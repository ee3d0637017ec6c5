//===- WeightSlice.h - Elements of a state in weight files ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How elements of a state map to elements of a tensor in the weight files.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_WEIGHTSLICE_H
#define HEDDLE_PLANFORMAT_WEIGHTSLICE_H

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::plan {

/// The elements of a state that are in one tensor of the weight files. Nested
/// loops visit these elements in the state and in the tensor at the same time.
/// State and tensor are whole (not shards) and row-major.
struct WeightSlice {
  struct Loop {
    int64_t extent = 1;
    /// How far one iteration of the loop advances in the state and in the
    /// tensor, in elements.
    int64_t state = 0, tensor = 0;
  };
  std::string tensor;
  std::vector<int64_t> shape; ///< Shape of the tensor.
  /// The loops, outermost first: sorted by falling stride in the state.
  std::vector<Loop> loops;
  /// The first element of the slice: its index in the state (`state`) and in
  /// the tensor (`first`).
  int64_t state = 0, first = 0;
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_WEIGHTSLICE_H
