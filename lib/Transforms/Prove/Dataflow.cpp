//===- Dataflow.cpp - Proves that reads find the values they mean ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `prove-dataflow`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Prove/Passes.h"
#include "heddle/Transforms/Prove/ProgramTraces.h"
#include "mlir/IR/Threading.h"
#include <atomic>

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
    SmallVector<planir::SequenceOp> sequences;
    for (planir::ProgramOp program : programsOf(getOperation()))
      for (auto sequence : program.getOps<planir::SequenceOp>())
        if (sequence.getKind())
          sequences.push_back(sequence);
    // A large mesh has hundreds of stages: check their sequences in parallel,
    // each by itself.
    std::atomic<int64_t> executed = 0;
    if (failed(failableParallelForEach(&getContext(), sequences,
                                       [&](planir::SequenceOp sequence) {
                                         return prove(sequence, executed);
                                       })))
      return signalPassFailure();
    numCommands += executed;
    markAllAnalysesPreserved();
  }

private:
  LogicalResult prove(planir::SequenceOp sequence,
                      std::atomic<int64_t> &executed) {
    auto program = sequence->getParentOfType<planir::ProgramOp>();
    FailureOr<ProgramTrace> unrolled = traceOf(program, sequence);
    if (failed(unrolled))
      return failure();
    int64_t commands = 0;
    std::optional<Fault> fault = checkFlow(unrolled->trace, &commands);
    executed += commands;
    if (!fault)
      fault = checkStateTiles(unrolled->trace);
    if (!fault)
      fault = checkSameElements(unrolled->trace);
    if (!fault)
      fault = checkGradients(unrolled->trace);
    if (fault)
      report(*fault, *unrolled);
    return failure(fault.has_value());
  }
};

} // namespace
