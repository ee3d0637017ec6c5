//===- PlanInterpreter.h - Executes a plan on bytes -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EVAL_PLANINTERPRETER_H
#define HEDDLE_LIB_EVAL_PLANINTERPRETER_H

#include "KernelRunner.h"
#include "heddle/Eval/RankInterpreter.h"
#include "llvm/ADT/DenseMap.h"
#include <deque>
#include <functional>
#include <limits>
#include <map>

namespace heddle::eval {

/// The interpreter of `plan.program`: the phases memory, prove and emit. It
/// knows nothing of the values that the bytes stand for: offsets and kernels
/// alone decide what comes out.
class PlanInterpreter : public RankInterpreter {
public:
  /// `kernels` may be null where none is compiled.
  static std::unique_ptr<PlanInterpreter>
  create(planir::ProgramOp program, const Rank &rank,
         const InterpreterOptions &options,
         std::shared_ptr<KernelRunner> kernels);

  mlir::Operation *source() override { return program; }
  int64_t batchParts(const ProgramName &name, const TensorMap &inputs) override;
  mlir::LogicalResult run(const ProgramName &name, const TensorMap &inputs,
                          const BatchSlice &batch, TensorMap &outputs) override;
  std::optional<std::vector<std::string>>
  inputsOf(const ProgramName &name) override;
  mlir::DictionaryAttr portsOf(const ProgramName &name) override;
  Tensor stored(const std::string &name) const override;
  void store(const std::string &name, const Tensor &value) override;

private:
  /// A memref's address, or an index's value.
  struct Operand {
    char *address = nullptr;
    int64_t scalar = 0;
  };
  using Operands = llvm::SmallVector<Operand>;
  using Environment = llvm::DenseMap<mlir::Value, Operand>;

  PlanInterpreter(planir::ProgramOp program, const Rank &rank,
                  const InterpreterOptions &options,
                  std::shared_ptr<KernelRunner> kernels);
  bool mapStates();
  bool mapMemory();
  /// Where a state is stored, and as what: its own place, or the part of a flat
  /// tensor that it lies in.
  std::pair<mlir::Type, char *> placeOf(llvm::StringRef name) const;
  planir::SequenceOp findProgram(const ProgramName &name);

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
  /// Commands that choose a place, or copy to one.
  mlir::LogicalResult runPlace(mlir::Operation *op, char *frame,
                               Environment &values);
  mlir::LogicalResult runCall(planir::CallOp call, char *frame,
                              const Environment &values);

  mlir::LogicalResult runCommunication(mlir::Operation *op,
                                       Environment &values);
  mlir::LogicalResult runCollective(planir::CollectiveOp collective,
                                    Environment &values);
  mlir::LogicalResult runWait(planir::WaitOp wait, const Environment &values);
  /// The memory of `bytes` at `offset` of the frame; null, with an error at
  /// `op`, when it leaves the arena of that memory.
  char *inFrame(mlir::Operation *op, planir::MemoryKind memory, char *frame,
                int64_t offset, int64_t bytes);
  /// The bytes of a buffer, checked alike; `frame` is the sequence's.
  char *placeOf(planir::BufferOp buffer, char *frame);
  /// The frame of the buffer's memory.
  char *frameOf(planir::BufferOp buffer, char *frame) const;
  char *deviceArena() const { return arena[plan::MemoryKind::Device].get(); }
  /// The bytes of a state or of a flat tensor.
  template <typename StateOp> char *inPersistent(StateOp state) const {
    return persistent[planir::memoryOf(state.getMemory())].get() +
           state.getOffset();
  }

  /// Does the work, or notes it for `finishBeside`.
  mlir::LogicalResult runOn(planir::Stream stream, std::function<void()> work);
  /// Does what is left of the first `count` works of the streams `copy` and
  /// `host`.
  mlir::LogicalResult
  finishBeside(int64_t count = std::numeric_limits<int64_t>::max()) const;

  /// Which buffers begin and end to live at a command.
  struct Lifetimes {
    llvm::SmallVector<planir::BufferOp> begin, end;
  };
  void findLifetimes(planir::SequenceOp sequence);
  void poison(llvm::ArrayRef<planir::BufferOp> buffers, char *frame);
  int64_t scratchBytes();
  void poisonScratch();

  /// A collective under way.
  struct Pending {
    mlir::Type type; ///< Of its target.
    char *target = nullptr;
  };

  planir::ProgramOp program;
  mlir::SymbolTable symbols;
  std::shared_ptr<KernelRunner> kernels;
  /// Of each kind of memory, between pages that fault.
  plan::PerMemory<std::shared_ptr<char>> persistent, arena;
  /// Of the streams `copy` and `host`, to do.
  mutable std::deque<std::function<void()>> beside;
  mutable int64_t numBeside = 0; ///< What was done of it.
  /// Points that the last run has left to the next one of its program: how much
  /// is done there.
  std::map<int64_t, int64_t> carried;
  planir::SequenceOp lastRun;
  bool hasFailed = false;                                 ///< Some of it.
  llvm::DenseMap<mlir::Operation *, Lifetimes> lifetimes; ///< By command.
  llvm::DenseMap<int64_t, Pending> pending; ///< By what is waited for.
};

/// The elements of a memref's or tensor's type that stand in memory.
Tensor readMemory(mlir::Type type, const char *memory);
/// Every byte of an element of ones: NaN in all float types.
inline constexpr int poisonByte = 0xff;

} // namespace heddle::eval

#endif // HEDDLE_LIB_EVAL_PLANINTERPRETER_H
