//===- PackedTexts.h - Kernels of products with packed weights --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_GPU_PACKEDTEXTS_H
#define HEDDLE_TEST_UNIT_GPU_PACKEDTEXTS_H

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::test {

/// A product of bf16 rows with a packed weight of a model.
struct PackedForm {
  const char *name;
  int64_t in, out, bits, group;
  bool hasZeros = false;
};

/// A kernel of the product alone, and the bytes of its arguments and result.
struct PackedText {
  std::string text;
  std::vector<int64_t> bytes;
  int64_t panels;
  int64_t panelBytes; ///< Of a panel's words, scales and zero points.
};
PackedText packedText(const PackedForm &form, int64_t rows);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_GPU_PACKEDTEXTS_H
