//===- Warnings.cpp - Warnings --------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Warnings.h"

#include <cstdio>

void heddle::rt::warn(const Diagnostic &diagnostic) {
  fprintf(stderr, "warning[%s]: %s\n  help: %s\n", diagnostic.code.c_str(),
          diagnostic.message.c_str(), diagnostic.help.c_str());
}
