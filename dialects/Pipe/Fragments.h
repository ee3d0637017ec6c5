//===- Fragments.h - Verifier of operations that run fragments -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared by pipe.fragments and plan.fragments.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PIPE_FRAGMENTS_H
#define HEDDLE_DIALECTS_PIPE_FRAGMENTS_H

#include "dialects/Pipe/PipeDialect.h"

namespace heddle::pipe {

/// Verifies an operation that runs the fragments of `line`, as pipe.fragments
/// and plan.fragments do: one region with two index arguments, and one number
/// of slots, for each kind of fragment in the line.
mlir::LogicalResult verifyFragments(mlir::Operation *op, LineAttr line,
                                    llvm::ArrayRef<int64_t> slots);

} // namespace heddle::pipe

#endif // HEDDLE_DIALECTS_PIPE_FRAGMENTS_H
