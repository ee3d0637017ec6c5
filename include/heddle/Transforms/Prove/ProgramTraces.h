//===- ProgramTraces.h - The traces of a plan -------------------*- C++ -*-===//
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

/// What one rank does in one step program.
struct ProgramTrace {
  Trace trace;
  std::vector<mlir::Operation *> origins; ///< As Trace::names.
};

/// The mesh that the plan was made for.
plan::Mesh meshOf(planir::ProgramOp program);

/// The programs of a module, by stage.
llvm::SmallVector<planir::ProgramOp> programsOf(mlir::ModuleOp module);

/// Unrolls the step program `sequence` of `program`: calls are entered; loops
/// and fragments of the step itself become bodies that are run many times. With
/// `rank`, every place is that rank's; without, the trace stands for all ranks
/// of the program's stage. Fails, with an error, on a schedule that cannot be
/// read (H0905), on a number that is no sum of multiples of what is known when
/// a plan is loaded and on bytes that are no buffer's (H0913).
mlir::FailureOr<ProgramTrace> traceOf(planir::ProgramOp program,
                                      planir::SequenceOp sequence,
                                      std::optional<int64_t> rank = {});

/// Reports a fault of `traces` on the operations that it names.
void report(const Fault &fault, llvm::ArrayRef<ProgramTrace> traces);

} // namespace heddle::prove

#endif // HEDDLE_TRANSFORMS_PROVE_PROGRAMTRACES_H
