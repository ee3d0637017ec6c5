//===- ProgramTraces.h - Makes traces from plans ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_PROVE_PROGRAMTRACES_H
#define HEDDLE_TRANSFORMS_PROVE_PROGRAMTRACES_H

#include "dialects/Plan/PlanFormat.h"
#include "heddle/Transforms/Prove/Traces.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::prove {

/// A trace of a step program, with the operations that its events come from.
struct ProgramTrace {
  Trace trace;
  /// For each index into Trace::names, the operation that it names.
  std::vector<mlir::Operation *> origins;
};

/// The mesh that the plan was made for.
plan::Mesh meshOf(planir::ProgramOp program);

/// The programs of a module, ordered by pipeline stage.
llvm::SmallVector<planir::ProgramOp> programsOf(mlir::ModuleOp module);

/// Makes the trace of the step that the command sequence `sequence` of
/// `program` implements. The commands of called sequences are part of the
/// trace. A loop or fragment (forward or backward pass of a stage) in
/// `sequence` itself, not in a called sequence, becomes a body of the trace
/// that is run many times. If `rank` is given, the addresses are those of that
/// rank. Otherwise the trace describes all ranks of the program's stage.
///
/// Emits H0905 and fails if the schedule cannot be parsed. Emits H0913 and
/// fails if an operand is not a buffer, or if an index is not a sum of
/// multiples of numbers that are known when a plan is loaded.
mlir::FailureOr<ProgramTrace> traceOf(planir::ProgramOp program,
                                      planir::SequenceOp sequence,
                                      std::optional<int64_t> rank = {});

/// Reports a fault of `traces` at the operations that caused it.
void report(const Fault &fault, llvm::ArrayRef<ProgramTrace> traces);

} // namespace heddle::prove

#endif // HEDDLE_TRANSFORMS_PROVE_PROGRAMTRACES_H
