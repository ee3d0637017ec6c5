//===- SequenceReader.h - Sequences as command lists ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EMIT_SEQUENCEREADER_H
#define HEDDLE_LIB_EMIT_SEQUENCEREADER_H

#include "heddle/Emit/PlanFromModule.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace heddle::emit {

/// Turns every plan.sequence, and every loop body, into a plan::Sequence.
class SequenceReader {
public:
  SequenceReader(planir::ProgramOp program, plan::Plan &plan,
                 const llvm::StringMap<int64_t> &kernels,
                 const llvm::StringMap<int64_t> &states)
      : program(program), plan(plan), kernels(kernels), states(states) {}

  void read();
  int64_t indexOf(llvm::StringRef sequence) { return indices.lookup(sequence); }
  plan::Ref refOf(mlir::Value buffer);
  /// Whether some command writes the buffer before any reads it: an output.
  bool isWritten(mlir::Value buffer);
  /// Sets how often a training step launches each kernel.
  void countCalls();
  /// The arithmetic of the model itself in one run of the program: products and
  /// attention of the forward pass, three times that for training.
  double modelFlops(const plan::Program &program);

private:
  void readBlock(mlir::Block &block, plan::Sequence &sequence);
  plan::Command launch(planir::LaunchOp op);
  plan::Command call(planir::CallOp op);
  plan::Command loop(planir::LoopOp op, const plan::Sequence &outer);
  void addOperands(mlir::ValueRange operands, plan::Command &command);
  plan::Scalar scalarOf(mlir::Value value);
  void count(int64_t sequence, double times, std::vector<double> &launches);

  planir::ProgramOp program;
  plan::Plan &plan;
  const llvm::StringMap<int64_t> &kernels, &states;
  llvm::StringMap<int64_t> indices;
};

} // namespace heddle::emit

#endif // HEDDLE_LIB_EMIT_SEQUENCEREADER_H
