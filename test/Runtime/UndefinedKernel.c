//===- UndefinedKernel.c - A kernel that lacks what it calls --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include <stdint.h>

double missing_function(double);

void calls_missing(void *const *refs, const int64_t *scalars, int64_t thread,
                   int64_t threads, void *scratch, int64_t *taken) {
  *(double *)refs[0] = missing_function(*(double *)refs[0]);
}
