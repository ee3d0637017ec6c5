//===- EmitBinary.h - Plan and objects to a program -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMIT_EMITBINARY_H
#define HEDDLE_EMIT_EMITBINARY_H

#include "heddle/Emit/WriteBinary.h"
#include "llvm/ADT/ArrayRef.h"

namespace heddle::emit {

/// Links `objects` and writes the program `output` (see `writeBinary`).
/// Returns what went wrong, if something did.
std::optional<Diagnostic> emitBinary(plan::Plan &plan,
                                     llvm::ArrayRef<std::string> objects,
                                     const std::string &runtimePath,
                                     const std::string &output);

} // namespace heddle::emit

#endif // HEDDLE_EMIT_EMITBINARY_H
