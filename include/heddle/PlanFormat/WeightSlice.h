//===- WeightSlice.h - Where a state's elements stand in files --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_WEIGHTSLICE_H
#define HEDDLE_PLANFORMAT_WEIGHTSLICE_H

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::plan {

/// The elements of a state that stand in one tensor of the weight files: those
/// that nested loops visit, in the state and in the tensor at once. Both are
/// whole and row-major.
struct WeightSlice {
  struct Loop {
    int64_t extent = 1;
    int64_t state = 0, tensor = 0; ///< Elements from one iteration to the next.
  };
  std::string tensor;
  std::vector<int64_t> shape;   ///< The tensor's.
  std::vector<Loop> loops;      ///< By falling stride in the state.
  int64_t state = 0, first = 0; ///< The first element, in state and tensor.
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_WEIGHTSLICE_H
