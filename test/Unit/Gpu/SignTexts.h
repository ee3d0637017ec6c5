//===- SignTexts.h - Kernels of averages in one bit, as texts ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_GPU_SIGNTEXTS_H
#define HEDDLE_TEST_UNIT_GPU_SIGNTEXTS_H

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::test {

/// The sizes of a kernel of NNSignOps.td. `counts` has the elements of each
/// tensor, `parts` is the number of replicas.
struct SignSizes {
  std::vector<int64_t> counts;
  int64_t parts;
  int64_t padding = 0; ///< Elements after the last tensor of each row.

  int64_t bucket() const; ///< The elements of a row that is a bucket.
  int64_t chunks() const; ///< The elements of a row of chunks.
  /// One of the texts below, with these sizes and so many rows.
  std::string textOf(const std::string &text, int64_t rows) const;
};

namespace signs {
extern const char *const scales, *const scalesOfChunks, *const joined;
/// The errors overwrite the input.
extern const char *const packed, *const packedChunks;
/// The mean overwrites the errors.
extern const char *const mean;
/// A new tensor if `tie` is "-1". With "2" it overwrites what was before.
std::string unpackedInto(const char *tie);
} // namespace signs

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_GPU_SIGNTEXTS_H
