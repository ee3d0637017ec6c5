//===- AllocationCount.h - How often this process allocated -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_ALLOCATIONCOUNT_H
#define HEDDLE_TEST_RUNTIME_ALLOCATIONCOUNT_H

#include <cstdint>

namespace heddle::test {

/// Calls of malloc, calloc, realloc and aligned_alloc so far; -1 where they
/// cannot be counted (a sanitizer has taken their place).
int64_t allocationCount();

} // namespace heddle::test

#endif // HEDDLE_TEST_RUNTIME_ALLOCATIONCOUNT_H
