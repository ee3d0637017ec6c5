//===- Fragments.h - What operations that run fragments share ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PIPE_FRAGMENTS_H
#define HEDDLE_DIALECTS_PIPE_FRAGMENTS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace heddle::pipe {

/// Whether an operation runs the fragments of `line`, as pipe.fragments does and
/// plan.fragments after it: one region for each of `kinds`, with its number of
/// slots and two arguments, and a kind for every action of the line.
mlir::LogicalResult verifyFragments(mlir::Operation *op, llvm::StringRef line,
                                    mlir::ArrayAttr kinds,
                                    llvm::ArrayRef<int64_t> slots);

} // namespace heddle::pipe

#endif // HEDDLE_DIALECTS_PIPE_FRAGMENTS_H
