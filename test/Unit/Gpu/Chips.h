//===- Chips.h - The chips of tests of GPU kernels --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_GPU_CHIPS_H
#define HEDDLE_TEST_UNIT_GPU_CHIPS_H

#include "../Support/IsLong.h"
#include "llvm/Support/xxhash.h"
#include <string>
#include <vector>

namespace heddle::test {

/// The chips that a kernel is mapped to: one that its text draws, or both where
/// tests may take long.
inline std::vector<const char *> chipsFor(const std::string &text) {
  if (isLong())
    return {"sm_80", "sm_90"};
  return {llvm::xxh3_64bits(text) % 2 ? "sm_80" : "sm_90"};
}

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_GPU_CHIPS_H
