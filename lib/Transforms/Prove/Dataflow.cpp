//===- Dataflow.cpp - Nothing is read before it is written ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramTraces.h"
#include "heddle/Transforms/Prove/Passes.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::prove;

namespace heddle {
#define GEN_PASS_DEF_PROVEDATAFLOW
#include "include/heddle/Transforms/Prove/Passes.h.inc"
} // namespace heddle

namespace {

struct Dataflow : heddle::impl::ProveDataflowBase<Dataflow> {
  void runOnOperation() override {
    int64_t executed = 0;
    for (planir::ProgramOp program : programsOf(getOperation()))
      for (auto sequence : program.getOps<planir::SequenceOp>())
        if (sequence.getKind() && failed(prove(program, sequence, executed)))
          return signalPassFailure();
    numCommands += executed;
    markAllAnalysesPreserved();
  }

private:
  LogicalResult prove(planir::ProgramOp program, planir::SequenceOp sequence,
                      int64_t &executed) {
    FailureOr<ProgramTrace> unrolled = traceOf(program, sequence);
    if (failed(unrolled))
      return failure();
    std::optional<Fault> fault = checkFlow(unrolled->trace, &executed);
    if (fault)
      report(*fault, *unrolled);
    return failure(fault.has_value());
  }
};

} // namespace
