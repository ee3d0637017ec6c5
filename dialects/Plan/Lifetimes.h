//===- Lifetimes.h - Lifetimes of buffers in a sequence ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lifetimes of buffers in a command sequence. Two buffers may share bytes only
// if all uses of one happen before the first use of the other. The memory
// planner assigns offsets by these lifetimes, and the verifier checks them. The
// proof (lib/Transforms/Prove/Races.cpp) does not use them: it follows every
// run.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PLAN_LIFETIMES_H
#define HEDDLE_DIALECTS_PLAN_LIFETIMES_H

#include "dialects/Plan/PlanDialect.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include <array>
#include <deque>
#include <optional>

namespace heddle::planir {

/// When a command may run, in numbers of commands on the stream `compute`:
/// after all before `first` are done, until `last`.
struct Span {
  mlir::Operation *op = nullptr;
  int64_t number = 0; ///< The number of the command itself.
  int64_t first = 0, last = 0;
  mlir::Operation *end = nullptr; ///< The command number `last`.
  /// For work that is left to the next run: the command of the next run at
  /// which `compute` has waited for it; else -1.
  int64_t settled = -1;
};

/// The buffer, state or argument that a slice or view refers to.
mlir::Value rootOf(mlir::Value buffer);

/// Finds the span of each command of a sequence: the commands on `compute` that
/// it may overlap with.
///  - A command on `compute` overlaps with no other: its span is its own
///    number.
///  - A collective ends at the plan.wait for its token, a send at a plan.flush
///    of its channel.
///  - A command on `copy`, `store` or `host` begins after the last command on
///    `compute` that its stream has waited for, either itself or by waiting for
///    another stream. It ends where `compute` waits for it.
///  - If `compute` does not wait, and a record has `carried`, then the command
///    ends in the next run of the program, where `compute` waits for the
///    record's number.
class Lifetimes {
public:
  /// Computes the spans. Fails, with an error (H0924), if no wait orders the
  /// beginning or the end of a command on `copy`, `store` or `host` in its
  /// block, or if the next run lacks the wait for a carried record.
  mlir::LogicalResult find(SequenceOp sequence);

  /// Every command with its span, in the order of the text.
  const llvm::MapVector<mlir::Operation *, Span> &all() const { return spans; }
  /// The number of commands, including those in regions.
  int64_t numCommands() const { return next; }

  /// The spans in which each buffer of the frame is used. If only the region of
  /// a loop uses a buffer, its span is within one iteration, since every
  /// iteration writes it again. If commands outside of the loop use it too, its
  /// span reaches to the end of the last iteration.
  llvm::MapVector<mlir::Value, llvm::SmallVector<Span>> uses() const;

  /// Whether a buffer is first written by a command on the stream `copy`, and
  /// that stream has waited before for the carried work of the previous run.
  /// Whoever reads the buffer waits for the copy, and thereby for that work.
  bool followsCarried(llvm::ArrayRef<Span> uses) const;

private:
  /// The asynchronous streams other than those for communication.
  static constexpr planir::Stream asyncStreams[] = {
      planir::Stream::Copy, planir::Stream::Store, planir::Stream::Host};
  static constexpr size_t numAsyncStreams = std::size(asyncStreams);

  /// The commands that are known to be done at some point of a stream.
  struct Clock {
    int64_t begin = -1; ///< The last command done on `compute`, or -1.
    /// For each stream of `asyncStreams`, how many of its commands in the block
    /// are done.
    std::array<size_t, numAsyncStreams> done = {};
    size_t settled = 0; ///< How many carried records are done.
  };
  /// The commands in a block that run on one of `asyncStreams`.
  struct AsyncQueue {
    Clock clock; ///< What the stream has waited for.
    size_t issued = 0;
    /// The commands that `compute` has not yet waited for.
    std::deque<mlir::Operation *> open;
    /// How many of `open`, the first ones, are left to the next run.
    size_t numCarried = 0;
  };
  using Work = std::array<AsyncQueue, numAsyncStreams>;
  /// The index of a stream in `asyncStreams`; nullopt if it is not one of them.
  static std::optional<size_t> indexOf(planir::Stream stream);
  /// The clock of the plan.record that is command number `here`.
  Clock clockOf(planir::Stream stream, const Work &work, int64_t here) const;

  mlir::LogicalResult walk(mlir::Block &block);
  mlir::LogicalResult walk(planir::CommandOpInterface command, Work &work);
  mlir::LogicalResult wait(planir::WaitOp op, int64_t here, Work &work);
  mlir::LogicalResult carry(planir::RecordOp op, Work &work);
  mlir::LogicalResult endCarried();
  /// Notes that at command `here` the first `count` carried records of the
  /// previous run are known to be done.
  static void settle(std::vector<int64_t> &at, size_t count, int64_t here) {
    at.resize(std::max(at.size(), count), here);
  }
  void endAt(mlir::Operation *op, mlir::Operation *end, int64_t here);

  Span useIn(mlir::Block *block, mlir::Operation *user) const;

  int64_t next = 0;
  llvm::MapVector<mlir::Operation *, Span> spans;
  /// For each command with regions, the number of the last command in them.
  llvm::DenseMap<mlir::Operation *, int64_t> ends;
  llvm::DenseMap<mlir::Value, Clock> points; ///< The clocks of tokens.
  /// For each channel, the sends that were not flushed, oldest first.
  llvm::StringMap<std::deque<mlir::Operation *>> sent;
  /// For each carried record, the commands that only the next run waits for.
  std::vector<llvm::SmallVector<mlir::Operation *>> carried;
  llvm::SmallVector<SettleOp> settles;
  /// For each carried record of the previous run, the number of the command at
  /// which `compute` (or `copy`) has waited for it.
  std::vector<int64_t> settledAt, settledForCopy;
};

} // namespace heddle::planir

#endif // HEDDLE_DIALECTS_PLAN_LIFETIMES_H
