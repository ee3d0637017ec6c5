//===- KernelFunction.h - The type of compiled CPU kernels ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_KERNELFUNCTION_H
#define HEDDLE_RUNTIME_CORE_KERNELFUNCTION_H

#include <cstdint>

namespace heddle::rt {

/// A compiled CPU kernel; Plan.h documents the arguments.
using KernelFunction = void (*)(void *const *refs, const int64_t *scalars,
                                int64_t thread, int64_t threads, void *scratch,
                                int64_t *taken);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_KERNELFUNCTION_H
