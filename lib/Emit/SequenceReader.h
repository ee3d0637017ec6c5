//===- SequenceReader.h - Sequences as command lists ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Translates the command sequences of plan.program into those of the plan
// format. Used by planFromModule.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EMIT_SEQUENCEREADER_H
#define HEDDLE_LIB_EMIT_SEQUENCEREADER_H

#include "dialects/Plan/PlanFormat.h"
#include "heddle/Emit/PlanFromModule.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace heddle::emit {

/// For each state, the kind of memory that it is in, and its offset in bytes in
/// that memory's persistent region.
using StatePlaces = llvm::StringMap<std::pair<plan::MemoryKind, int64_t>>;

/// Translates every plan.sequence, and every region in one, to a
/// plan::Sequence.
class SequenceReader {
public:
  SequenceReader(planir::ProgramOp program, plan::Plan &plan,
                 const llvm::StringMap<int64_t> &kernels,
                 const StatePlaces &places)
      : program(program), symbols(program), plan(plan), kernels(kernels),
        places(places) {}

  void read();
  int64_t indexOf(llvm::StringRef sequence) { return indices.lookup(sequence); }
  plan::Ref refOf(mlir::Value buffer);
  /// Counts the launches of each kernel in a training step.
  void countCalls();
  /// The model FLOPs of one run of the program. They are the FLOPs of matrix
  /// products and attention in the forward pass, multiplied by three for
  /// training. With `path`, only those of calls with this module path.
  double modelFlops(const plan::Program &program,
                    const std::string *path = nullptr);

private:
  void readBlock(mlir::Block &block, plan::Sequence &sequence);
  static void readBuffers(planir::SequenceOp op, int64_t alignment,
                          plan::Sequence &sequence);
  plan::Command read(mlir::Operation &op, const plan::Sequence &sequence);
  plan::Command launch(planir::LaunchOp op);
  plan::Command call(planir::CallOp op);
  plan::Guard guardOf(mlir::Operation &op);
  plan::Command loop(planir::LoopOp op, const plan::Sequence &outer);
  plan::Command fragments(planir::FragmentsOp op, const plan::Sequence &outer);
  plan::Command collective(planir::CollectiveOp op);
  template <typename Message, typename MessageOp>
  plan::Command message(MessageOp op);
  int64_t readBody(mlir::Block &block, const plan::Sequence &outer,
                   llvm::StringRef suffix);
  void addOperands(mlir::ValueRange operands, plan::command::Operands &to);
  plan::Scalar scalarOf(mlir::Value value);
  void count(int64_t sequence, double times, std::vector<double> &launches,
             const std::string *path = nullptr);

  planir::ProgramOp program;
  mlir::SymbolTable symbols; ///< Symbols of the program.
  plan::Plan &plan;
  const llvm::StringMap<int64_t> &kernels;
  const StatePlaces &places;
  llvm::DenseMap<mlir::Value, int64_t> tokens;
  llvm::StringMap<int64_t> indices;
};

} // namespace heddle::emit

#endif // HEDDLE_LIB_EMIT_SEQUENCEREADER_H
