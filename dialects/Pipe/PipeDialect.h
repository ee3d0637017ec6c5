//===- PipeDialect.h - Stages, schedules and fragments ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PIPE_PIPEDIALECT_H
#define HEDDLE_DIALECTS_PIPE_PIPEDIALECT_H

#include "dialects/Pipe/Schedule.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"

#include "dialects/Pipe/PipeDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Pipe/PipeAttrs.h.inc"

#define GET_OP_CLASSES
#include "dialects/Pipe/PipeOps.h.inc"

namespace heddle::pipe {

/// The number of micro-batches for which `op` runs, if `op` is inside of a loop
/// over micro-batches or of an operation that runs a pipeline schedule.
/// Otherwise 0.
int64_t microBatchesAt(mlir::Operation *op);

/// Verifies an operation such as pipe.fragments or plan.fragments, which runs
/// `line`: the forward and backward passes (fragments) of a pipeline stage. For
/// each kind of fragment in the line, the operation must have one region, which
/// has two index arguments. `slots` must have one entry for each kind: the
/// number of buffers for micro-batches in flight.
mlir::LogicalResult verifyFragments(mlir::Operation *op, LineAttr line,
                                    llvm::ArrayRef<int64_t> slots);

} // namespace heddle::pipe

#endif // HEDDLE_DIALECTS_PIPE_PIPEDIALECT_H
