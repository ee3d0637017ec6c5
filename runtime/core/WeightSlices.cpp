//===- WeightSlices.cpp - Elements of a state in weight files -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/WeightSlices.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;
using plan::WeightSlice;

[[noreturn]] static void malformed() {
  fail("H0385",
       "the plan is malformed: a state's elements are not in its tensors",
       "compile the binary again");
}

/// Returns the longest range of elements of the slice `piece` that begins at
/// `element`, an index in the state, and is contiguous in the state. The count
/// of the range is 0 if the slice does not contain that element.
static WeightRange runFrom(const WeightSlice &piece, int64_t element) {
  WeightRange run{&piece, element, piece.first, 1, 0};
  int64_t rest = element - piece.state;
  if (rest < 0)
    return run;
  // A slice is a loop nest over elements. This is the number of elements from
  // `element` on that are consecutive in the state: the remaining iterations of
  // the innermost loop, or 1 if that loop's stride in the state is not 1.
  int64_t left = 1;
  for (const WeightSlice::Loop &loop : piece.loops) {
    int64_t index = rest / loop.state;
    if (index >= loop.extent)
      return run;
    rest -= index * loop.state;
    run.tensor += index * loop.tensor;
    bool isDense = loop.state == 1;
    left = isDense ? loop.extent - index : 1;
    run.stride = isDense ? loop.tensor : 1;
  }
  run.count = rest == 0 ? left : 0;
  return run;
}

void heddle::rt::forEachRun(
    const std::vector<WeightSlice> &pieces, int64_t first, int64_t count,
    const std::function<void(const WeightRange &)> &visit) {
  size_t last = 0; // The next element is often in the same slice.
  for (int64_t element = first, end = first + count; element < end;) {
    WeightRange run;
    for (size_t tried = 0; tried < pieces.size() && run.count == 0; ++tried) {
      size_t index = (last + tried) % pieces.size();
      run = runFrom(pieces[index], element);
      if (run.count > 0)
        last = index;
    }
    if (run.count == 0)
      malformed();
    run.count = std::min(run.count, end - element);
    visit(run);
    element += run.count;
  }
}

plan::WeightSlice heddle::rt::wholeTensor(const std::string &tensor,
                                          const std::vector<int64_t> &shape) {
  WeightSlice piece;
  piece.tensor = tensor;
  piece.shape = shape;
  int64_t elements = 1;
  for (int64_t extent : shape)
    elements *= extent;
  piece.loops.push_back({elements, 1, 1});
  return piece;
}

void heddle::rt::checkWeightSlices(const std::vector<WeightSlice> &pieces) {
  for (const WeightSlice &piece : pieces) {
    int64_t elements = 1, last = piece.first;
    for (int64_t extent : piece.shape)
      elements *= extent;
    for (const WeightSlice::Loop &loop : piece.loops) {
      if (loop.extent < 1 || loop.state < 1 || loop.tensor < 1)
        malformed();
      last += (loop.extent - 1) * loop.tensor;
    }
    if (piece.first < 0 || piece.state < 0 || last >= elements)
      malformed();
  }
}
