//===- Warnings.h - What a user should know of, and may leave ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_WARNINGS_H
#define HEDDLE_RUNTIME_APP_WARNINGS_H

#include "heddle/runtime/io/Diagnostic.h"

namespace heddle::rt {

/// Prints the code, the message and the help to stderr. The job goes on.
void warn(const Diagnostic &diagnostic);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_WARNINGS_H
