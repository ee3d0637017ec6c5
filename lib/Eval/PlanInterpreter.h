//===- PlanInterpreter.h - Executes a plan on bytes -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interprets the commands of a plan on simulated memory, for modules from the
// `memory` phase on.
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

/// Interprets a `plan.program`, from the phase `memory` on. It uses only
/// buffers, offsets and kernels, and no information of earlier phases. So a
/// wrong plan gives wrong results.
class PlanInterpreter : public RankInterpreter {
public:
  /// `kernels` may be null if the plan has no compiled kernels.
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
  /// An operand of a command: the address of a memref, or the value of an
  /// index.
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
  /// The type and address of a state. The state has memory of its own, or lies
  /// in the flat tensor of a bucket.
  std::pair<mlir::Type, char *> stateMemory(llvm::StringRef name) const;
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
  /// Executes commands that compute an address, and commands that copy or fill
  /// bytes.
  mlir::LogicalResult runAddressing(mlir::Operation *op, char *frame,
                                    Environment &values);
  mlir::LogicalResult runCall(planir::CallOp call, char *frame,
                              const Environment &values);

  mlir::LogicalResult runCommunication(mlir::Operation *op,
                                       Environment &values);
  mlir::LogicalResult runCollective(planir::CollectiveOp collective,
                                    Environment &values);
  mlir::LogicalResult runWait(planir::WaitOp wait, const Environment &values);
  /// The address of `bytes` bytes at `offset` in a sequence's frame, which is
  /// the range of the arena that holds the sequence's own values. `memory` is
  /// the kind of memory. If the bytes are not inside of the arena of this kind,
  /// reports an error at `op` and returns null.
  char *inFrame(mlir::Operation *op, planir::MemoryKind memory, char *frame,
                int64_t offset, int64_t bytes);
  /// The address of a buffer in `frame`, the frame of its sequence. If the
  /// buffer is not inside of the arena of its kind of memory, reports an error
  /// and returns null.
  char *bufferAddress(planir::BufferOp buffer, char *frame);
  /// The beginning of a sequence's frame (its temporary memory) in the kind of
  /// memory in which `buffer` is. In device memory it is `frame`. In every
  /// other kind of memory the frame begins where the arena begins.
  char *frameOf(planir::BufferOp buffer, char *frame) const;
  char *deviceArena() const { return arena[plan::MemoryKind::Device].get(); }
  /// The address of a state, or of a bucket's flat tensor.
  template <typename StateOp> char *inPersistent(StateOp state) const {
    return persistent[planir::memoryOf(state.getMemory())].get() +
           state.getOffset();
  }

  /// Executes `work`, or queues it for `finishDeferred` if `stream` is `copy`
  /// or `host`.
  mlir::LogicalResult runOn(planir::Stream stream, std::function<void()> work);
  /// Executes queued work items of the streams `copy` and `host`, until `count`
  /// items have been executed since the program began.
  mlir::LogicalResult
  finishDeferred(int64_t count = std::numeric_limits<int64_t>::max()) const;

  /// The buffers whose lifetimes begin at a command, and those whose lifetimes
  /// end there.
  struct Lifetimes {
    llvm::SmallVector<planir::BufferOp> begin, end;
  };
  void findLifetimes(planir::SequenceOp sequence);
  void poison(llvm::ArrayRef<planir::BufferOp> buffers, char *frame);
  int64_t scratchBytes();
  void poisonScratch();

  /// A collective that was started and not yet waited for.
  struct Pending {
    mlir::Type type; ///< The type of the target buffer.
    char *target = nullptr;
  };

  planir::ProgramOp program;
  mlir::SymbolTable symbols;
  std::shared_ptr<KernelRunner> kernels;
  /// For each kind of memory, the persistent region, which holds states, and
  /// the arena, which holds all other values. Each region is allocated between
  /// two inaccessible pages.
  plan::PerMemory<std::shared_ptr<char>> persistent, arena;
  /// The queue of the work items (deferred commands) of the streams `copy` and
  /// `host`.
  mutable std::deque<std::function<void()>> deferred;
  /// How many work items were removed from the queue `deferred` and executed.
  mutable int64_t numDeferred = 0;
  /// A plan.record with `carried` marks work for which a plan.settle in the
  /// program's next run waits. For each such record that the last run has
  /// executed, by the record's number: how many work items were queued before
  /// it.
  std::map<int64_t, int64_t> carried;
  planir::SequenceOp lastRun;
  bool hasFailed = false; ///< Whether any work has failed.
  /// The buffers whose lifetimes begin or end at each command.
  llvm::DenseMap<mlir::Operation *, Lifetimes> lifetimes;
  /// The running collectives, by the handle that Rank::wait takes.
  llvm::DenseMap<int64_t, Pending> pending;
};

/// Reads a value of a memref's or tensor's type from memory.
Tensor readMemory(mlir::Type type, const char *memory);
/// If all bytes of a float have this value, it is NaN in every format.
inline constexpr int poisonByte = 0xff;

} // namespace heddle::eval

#endif // HEDDLE_LIB_EVAL_PLANINTERPRETER_H
