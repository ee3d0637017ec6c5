//===- PlanInterpreter.h - Executes a plan on bytes -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_PLANINTERPRETER_H
#define HEDDLE_EVAL_PLANINTERPRETER_H

#include "heddle/Eval/Interpreter.h"
#include "heddle/Eval/KernelRunner.h"
#include "llvm/ADT/DenseMap.h"

namespace heddle::eval {

/// The interpreter of `plan.program`: the phases memory, prove and emit. It
/// knows nothing of the values that the bytes stand for: offsets and kernels
/// alone decide what comes out.
class PlanInterpreter : public Interpreter {
public:
  static std::unique_ptr<PlanInterpreter>
  create(planir::ProgramOp program, const InterpreterOptions &options);

  mlir::LogicalResult run(llvm::StringRef kind, const TensorMap &inputs,
                          TensorMap &outputs) override;
  Tensor state(const std::string &name) const override;
  void setState(const std::string &name, const Tensor &value) override;

private:
  /// A memref's address, or an index's value.
  struct Operand {
    char *address = nullptr;
    int64_t scalar = 0;
  };
  using Operands = llvm::SmallVector<Operand>;
  using Environment = llvm::DenseMap<mlir::Value, Operand>;

  PlanInterpreter(planir::ProgramOp program, const InterpreterOptions &options);
  bool mapStates();
  bool mapMemory();

  mlir::LogicalResult runSequence(planir::SequenceOp sequence,
                                  llvm::ArrayRef<Operand> args, char *frame);
  mlir::LogicalResult runBlock(mlir::Block &block, char *frame,
                               Environment &values);
  mlir::LogicalResult runCommand(mlir::Operation *op, char *frame,
                                 Environment &values);
  mlir::LogicalResult runLaunch(planir::LaunchOp launch,
                                const Environment &values);
  mlir::LogicalResult runLoop(planir::LoopOp loop, char *frame,
                              Environment &values);
  /// The memory of `bytes` at `offset` of the frame; null, with an error at
  /// `op`, when it leaves the arena.
  char *inFrame(mlir::Operation *op, char *frame, int64_t offset,
                int64_t bytes);

  /// Which buffers begin and end to live at a command.
  struct Lifetimes {
    llvm::SmallVector<planir::BufferOp> begin, end;
  };
  void findLifetimes(planir::SequenceOp sequence);
  void poison(llvm::ArrayRef<planir::BufferOp> buffers, char *frame);
  void poisonScratch();

  planir::ProgramOp program;
  InterpreterOptions options;
  mlir::SymbolTable symbols;
  std::unique_ptr<KernelRunner> kernels;
  std::shared_ptr<char> persistent, arena; ///< Between pages that fault.
  llvm::DenseMap<mlir::Operation *, Lifetimes> lifetimes; ///< By command.
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_PLANINTERPRETER_H
