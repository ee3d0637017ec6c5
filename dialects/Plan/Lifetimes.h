//===- Lifetimes.h - Lifetimes of buffers in a sequence ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the lifetimes of buffers in a command sequence. Two buffers may
// share bytes only if all uses of one happen before the first use of the other.
// The memory planner assigns offsets by these lifetimes, and the verifier
// checks the offsets. The proof of race freedom
// (lib/Transforms/Prove/Races.cpp) does not use the lifetimes: it follows
// traces of the commands that ranks run.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PLAN_LIFETIMES_H
#define HEDDLE_DIALECTS_PLAN_LIFETIMES_H

#include "dialects/Plan/PlanDialect.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include <array>
#include <deque>
#include <optional>

namespace heddle::planir {

/// The interval in which an asynchronous command may run, as indices of
/// commands in the sequence. The command starts after all commands on the
/// stream `compute` before `first` are done, and is done when command `last` is
/// done.
struct Span {
  mlir::Operation *op = nullptr;
  int64_t number = 0; ///< The index of `op` in the sequence.
  int64_t first = 0, last = 0;
  mlir::Operation *end = nullptr; ///< The command with index `last`.
  /// Only for a command that may still run in the next run of the program: the
  /// index of the command at which the stream `compute` of the next run waits
  /// for it. For other commands -1.
  int64_t settled = -1;
};

/// The buffer, state or argument that a slice or view refers to.
mlir::Value rootOf(mlir::Value buffer);

/// The buffers that are copied to or from offloaded states. They begin at a
/// page and consist of whole pages, because direct I/O to files requires this.
llvm::DenseSet<mlir::Value> transferBuffersOf(SequenceOp sequence);

/// Finds the span of each command of a sequence: the commands on the stream
/// `compute` during which it may run.
/// - A command on `compute` runs alone: its span is its own index.
/// - A collective ends at the plan.wait for its token. A send ends at a
///   plan.flush of its channel.
/// - A command on the stream `copy`, `store` or `host` begins after the last
///   command on `compute` that its stream has waited for, either directly or by
///   waiting for another stream. It ends where `compute` waits for it. A wait
///   with a guard counts only for commands with the same guard, because steps
///   may skip it.
/// - `compute` need not wait for a command in the same run if a later
///   plan.record of the command's stream has the attribute `carried`. The
///   command then ends in the next run of the program, where `compute` waits
///   for that record.
class Lifetimes {
public:
  /// Computes the span of each command: the interval in which it may run. Fails
  /// with the error H0924 if the waits do not say when a command on the stream
  /// `copy`, `store` or `host` begins, or when it is done. These waits must be
  /// in the block of the command. Also fails if a plan.record has the attribute
  /// `carried`, but the next run of the program does not wait for the record.
  mlir::LogicalResult find(SequenceOp sequence);

  /// Every command of the sequence with its span (the interval in which it may
  /// run), in the order of the plan.
  const llvm::MapVector<mlir::Operation *, Span> &all() const { return spans; }
  /// The number of commands, including those in regions.
  int64_t numCommands() const { return next; }

  /// The spans in which each buffer is used, as intervals of command indices.
  /// If only the body of a loop uses a buffer, its spans lie within one
  /// iteration, because every iteration writes the buffer again. If commands
  /// outside of the loop use the buffer too, it is in use until the end of the
  /// last iteration.
  llvm::MapVector<mlir::Value, llvm::SmallVector<Span>> uses() const;

  /// Whether a buffer can be used although commands of the program's previous
  /// run may still be running. This holds if the stream `copy` waits for these
  /// commands and then writes the buffer, before anything else uses the buffer.
  /// Commands that read the buffer wait for this write, and so also for the
  /// commands of the previous run.
  bool followsCarried(llvm::ArrayRef<Span> uses) const;

private:
  /// The streams whose commands run asynchronously to `compute`, except the
  /// stream for communication.
  static constexpr planir::Stream asyncStreams[] = {
      planir::Stream::Copy, planir::Stream::Store, planir::Stream::Host};
  static constexpr size_t numAsyncStreams = std::size(asyncStreams);

  /// The commands that are known to be done when a stream reaches a certain
  /// command, the clock's point.
  struct Clock {
    /// The index of the last command on `compute` that is done when the stream
    /// reaches the clock's point; -1 if there is none. In an AsyncQueue, the
    /// span of the stream's next command begins here.
    int64_t begin = -1;
    /// For each stream of `asyncStreams`: how many of its commands in the block
    /// are done when the clock's point is reached.
    std::array<size_t, numAsyncStreams> done = {};

    void add(const Clock &other);
  };
  /// What is known in all steps when a stream reaches a certain point, and what
  /// is known only in steps in which a condition has a certain value. A wait
  /// that a step skips orders nothing, so a wait with a guard adds to the
  /// latter.
  struct Knowledge {
    Clock always;
    llvm::SmallVector<std::pair<Guard, Clock>, 0> guarded;
    /// How many plan.records of the previous run with the attribute `carried`
    /// have been waited for in all steps. Commands before such a record may run
    /// in this run.
    size_t settled = 0;

    /// What is known in steps that execute the commands with this guard.
    Clock under(const Guard &guard) const;
    void add(const Clock &clock, const Guard &guard);
    /// Adds what is known at another point, if a step reaches that point before
    /// this one only when `guard` holds.
    void add(const Knowledge &other, const Guard &guard);
  };
  /// A command on one of `asyncStreams`.
  struct Issued {
    size_t number = 0; ///< How many commands of the stream were issued before.
    mlir::Operation *op = nullptr;
  };
  /// The commands in a block that run on one of `asyncStreams`.
  struct AsyncQueue {
    Knowledge known; ///< The commands for which the stream has waited.
    size_t issued = 0;
    /// The stream's commands that `compute` has not waited for so far.
    std::deque<Issued> open;
    /// How many commands at the front of `open` may still run in the next run
    /// of the program.
    size_t numCarried = 0;
  };
  struct Work {
    std::array<AsyncQueue, numAsyncStreams> queues;
    Knowledge compute; ///< The commands for which `compute` has waited.
  };
  /// The index of a stream in `asyncStreams`; nullopt if it is not one of them.
  static std::optional<size_t> indexOf(planir::Stream stream);
  /// What is known when a stream reaches the plan.record with index `here`.
  Knowledge pointOf(planir::RecordOp record, const Work &work,
                    int64_t here) const;

  mlir::LogicalResult walk(mlir::Block &block);
  mlir::LogicalResult walk(planir::CommandOpInterface command, Work &work);
  mlir::LogicalResult wait(planir::WaitOp op, int64_t here, Work &work);
  void endDone(AsyncQueue &queue, size_t stream, const Knowledge &known,
               mlir::Operation *end, int64_t here);
  mlir::LogicalResult carry(planir::RecordOp op, Work &work);
  mlir::LogicalResult endCarried();
  /// Called when the command with index `here` makes a stream wait for the
  /// first `count` plan.records of the previous run that have the attribute
  /// `carried`. Commands before such a record may still run in this run.
  /// `at[i]` is the index of the first command that waited for record i.
  /// Appends `here` for those of the `count` records that are not yet in `at`.
  static void settle(std::vector<int64_t> &at, size_t count, int64_t here) {
    at.resize(std::max(at.size(), count), here);
  }
  void endAt(mlir::Operation *op, mlir::Operation *end, int64_t here);

  Span useIn(mlir::Block *block, mlir::Operation *user) const;

  int64_t next = 0;
  llvm::MapVector<mlir::Operation *, Span> spans;
  /// For each command with regions, the index of the last command in its
  /// regions.
  llvm::DenseMap<mlir::Operation *, int64_t> ends;
  /// For the token that a plan.record makes, what is known when the record's
  /// stream reaches the record.
  llvm::DenseMap<mlir::Value, Knowledge> points;
  /// For each channel, the sends for whose completion no plan.flush has waited
  /// yet, oldest first.
  llvm::StringMap<std::deque<mlir::Operation *>> sent;
  /// For each plan.record with the attribute `carried`: the earlier commands of
  /// the record's stream that this run does not wait for. The next run does.
  std::vector<llvm::SmallVector<mlir::Operation *>> carried;
  llvm::SmallVector<SettleOp> settles;
  /// The attribute `carried` of a plan.record says that commands before the
  /// record may still run in the next run of the program. Entry i is the index
  /// of the first command that makes a stream wait for such a record, the
  /// previous run's record i. `settledAt` is for the stream `compute`,
  /// `settledForCopy` for the stream `copy`.
  std::vector<int64_t> settledAt, settledForCopy;
};

} // namespace heddle::planir

#endif // HEDDLE_DIALECTS_PLAN_LIFETIMES_H
