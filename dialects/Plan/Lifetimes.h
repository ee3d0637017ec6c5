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

/// Finds when each command of a sequence may run. A command on `compute` runs
/// at its own number. A collective runs until it is waited for, a send until a
/// flush. Work on `copy`, `store` or `host` runs from the last point of
/// `compute` that its stream has waited for, directly or through other streams,
/// until `compute` waits for it. Work that a record leaves to the next run
/// lasts to the end, and in the next run until `compute` has waited for it.
class Lifetimes {
public:
  /// Computes the spans. Fails, with an error (H0924), if work on `copy`,
  /// `store` or `host` begins or ends without an order in its block, or if the
  /// next run does not wait for work that is left to it.
  mlir::LogicalResult find(SequenceOp sequence);

  /// Every command with its span, in the order of the text.
  const llvm::MapVector<mlir::Operation *, Span> &all() const { return spans; }
  /// The number of commands, including those in regions.
  int64_t numCommands() const { return next; }

  /// The spans in which each buffer of the frame is used. A buffer that only a
  /// repeated region uses is in use within one run of the region, since every
  /// run computes its values again. A buffer that is also used outside stays in
  /// use until the last run is done.
  llvm::MapVector<mlir::Value, llvm::SmallVector<Span>> uses() const;

  /// Whether the first of a buffer's uses, which writes it, is on the stream
  /// `copy` after that stream has waited for the work that the previous run
  /// left. Its readers wait for this use, and so for that work.
  bool followsCarried(llvm::ArrayRef<Span> uses) const;

private:
  /// The asynchronous streams without communication.
  static constexpr planir::Stream asyncStreams[] = {
      planir::Stream::Copy, planir::Stream::Store, planir::Stream::Host};
  static constexpr size_t numAsyncStreams = std::size(asyncStreams);

  /// What is known to be done at a point of a stream.
  struct Clock {
    int64_t begin = -1; ///< The last point of `compute`, or -1.
    /// The number of commands of each of `asyncStreams` in the block.
    std::array<size_t, numAsyncStreams> done = {};
    size_t settled = 0; ///< The number of points of the previous run.
  };
  /// The work of one of `asyncStreams` in a block.
  struct AsyncQueue {
    Clock clock; ///< What the stream has waited for.
    size_t issued = 0;
    /// Commands that `compute` has not waited for.
    std::deque<mlir::Operation *> open;
    size_t numCarried = 0; ///< The first of them that are left to the next run.
  };
  using Work = std::array<AsyncQueue, numAsyncStreams>;
  /// The index of a stream in `asyncStreams`, or none.
  static std::optional<size_t> indexOf(planir::Stream stream);
  /// The clock at a record, which is command number `here`.
  Clock clockOf(planir::Stream stream, const Work &work, int64_t here) const;

  mlir::LogicalResult walk(mlir::Block &block);
  mlir::LogicalResult walk(planir::CommandOpInterface command, Work &work);
  mlir::LogicalResult wait(planir::WaitOp op, int64_t here, Work &work);
  mlir::LogicalResult carry(planir::RecordOp op, Work &work);
  mlir::LogicalResult endCarried();
  /// At command `here`, `count` of the previous run's points are known to be
  /// done.
  static void settle(std::vector<int64_t> &at, size_t count, int64_t here) {
    at.resize(std::max(at.size(), count), here);
  }
  void endAt(mlir::Operation *op, mlir::Operation *end, int64_t here);

  Span useIn(mlir::Block *block, mlir::Operation *user) const;

  int64_t next = 0;
  llvm::MapVector<mlir::Operation *, Span> spans;
  /// The last command in the regions of each command.
  llvm::DenseMap<mlir::Operation *, int64_t> ends;
  llvm::DenseMap<mlir::Value, Clock> points; ///< The clocks of tokens.
  /// Sends on each channel that were not flushed, oldest first.
  llvm::StringMap<std::deque<mlir::Operation *>> sent;
  /// Work that is left to the next run, by the number of its point.
  std::vector<llvm::SmallVector<mlir::Operation *>> carried;
  llvm::SmallVector<SettleOp> settles;
  /// For each point of the previous run, the command at which `compute` (or
  /// `copy`) has waited for it.
  std::vector<int64_t> settledAt, settledForCopy;
};

} // namespace heddle::planir

#endif // HEDDLE_DIALECTS_PLAN_LIFETIMES_H
