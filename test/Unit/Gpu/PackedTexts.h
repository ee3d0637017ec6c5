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

/// A product of rows with a packed weight of a model.
struct PackedForm {
  const char *name;
  int64_t in, out, bits, group;
  bool hasZeros = false;
  /// The operation that computes the rows, such as "rms_norm"; "": they are an
  /// argument.
  std::string norm = "";
  std::string type = "bf16"; ///< Of all that is not packed.
};

/// A kernel of the product, and the bytes of its arguments and result.
struct PackedText {
  std::string text;
  std::vector<int64_t> bytes;
  int64_t panels;
  int64_t panelBytes; ///< Of a panel's words, scales and zero points.
  int64_t rowBytes;   ///< Of the rows, and of the norm's operands beside them.
};
PackedText packedText(const PackedForm &form, int64_t rows);
/// The kernel of the norm alone.
std::string normText(const PackedForm &form, int64_t rows);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_GPU_PACKEDTEXTS_H
