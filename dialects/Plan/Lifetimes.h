//===- Lifetimes.h - What happens before what in a sequence -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers may share bytes only where all uses of one happen before the first of
// the other. The planner packs by this, and the verifier checks by it; the
// proof (lib/Transforms/Prove/Races.cpp) goes through every run by itself.
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

/// The commands of the stream `compute`, by number, beside which a command may
/// run: it begins when those before `first` are done, and is done at `last`.
struct Span {
  mlir::Operation *op = nullptr;
  int64_t number = 0; ///< Of the command itself.
  int64_t first = 0, last = 0;
  mlir::Operation *end = nullptr; ///< The command `last`.
  /// Of what is left to the next run: the command at which `compute` knows
  /// there that it is done; else -1.
  int64_t settled = -1;
};

/// The buffer, state or argument that a slice or view is of.
mlir::Value rootOf(mlir::Value buffer);

/// Follows the streams of a sequence by what its commands say of themselves.
/// What `compute` does has the span of its own number. A collective lasts until
/// it is waited for, a send until a flush says that it is gone. What `copy`,
/// `store` or `host` does begins at the last point of `compute` that it waits
/// for, also through the others, and lasts until `compute` waits for it. What a
/// record leaves to the next run lasts to the end, and there until `compute`
/// knows that it is done.
class Lifetimes {
public:
  /// Fails, with an error (H0924), when work of the streams `copy`, `store`
  /// and `host` begins or ends without an order in its block, or when the next
  /// run does not wait for what is left to it.
  mlir::LogicalResult find(SequenceOp sequence);

  /// Every command with its span, in the order of the text.
  const llvm::MapVector<mlir::Operation *, Span> &all() const { return spans; }
  /// How many commands there are, those in regions too.
  int64_t numCommands() const { return next; }

  /// When each buffer of the frame that has uses is in use. What a region that
  /// runs again uses alone is in use in one run of it, as every run makes its
  /// values anew; what others use too stays until the last run is done.
  llvm::MapVector<mlir::Value, llvm::SmallVector<Span>> uses() const;

  /// Whether the first of these uses of a buffer, by which it gets its bytes,
  /// is of the stream `copy`, when that knows what the run before has left to
  /// be done; who reads them waits for it, and knows the same.
  bool followsCarried(llvm::ArrayRef<Span> uses) const;

private:
  /// The streams beside `compute` that have no communication.
  static constexpr planir::Stream besides[] = {
      planir::Stream::Copy, planir::Stream::Store, planir::Stream::Host};
  static constexpr size_t numBesides = std::size(besides);

  /// What is known to be done at a point of a stream.
  struct Clock {
    int64_t begin = -1; ///< The last point of `compute`, or -1.
    /// Commands of each of `besides` in the block.
    std::array<size_t, numBesides> done = {};
    size_t settled = 0; ///< Points that the run before has left.
  };
  /// What one of `besides` does in a block, which it begins and ends itself.
  struct Beside {
    Clock clock; ///< What it waited for.
    size_t issued = 0;
    std::deque<mlir::Operation *> open; ///< `compute` did not wait for these.
    size_t numCarried = 0;              ///< The first of them, which are left.
  };
  using Work = std::array<Beside, numBesides>;
  /// Its place in `besides`, or none.
  static std::optional<size_t> placeOf(planir::Stream stream);
  /// At a record, which is command number `here`.
  Clock clockOf(planir::Stream stream, const Work &work, int64_t here) const;

  mlir::LogicalResult walk(mlir::Block &block);
  mlir::LogicalResult walk(planir::CommandOpInterface command, Work &work);
  mlir::LogicalResult wait(planir::WaitOp op, int64_t here, Work &work);
  mlir::LogicalResult carry(planir::RecordOp op, Work &work);
  mlir::LogicalResult endCarried();
  /// At command `here` so many of the points that the run before has left are
  /// known to be done.
  static void settle(std::vector<int64_t> &at, size_t count, int64_t here) {
    at.resize(std::max(at.size(), count), here);
  }
  void endAt(mlir::Operation *op, mlir::Operation *end, int64_t here);

  Span useIn(mlir::Block *block, mlir::Operation *user) const;

  int64_t next = 0;
  llvm::MapVector<mlir::Operation *, Span> spans;
  /// The last command of each that has regions.
  llvm::DenseMap<mlir::Operation *, int64_t> ends;
  llvm::DenseMap<mlir::Value, Clock> points; ///< That tokens stand for.
  /// What was sent on each channel and not flushed, the oldest first.
  llvm::StringMap<std::deque<mlir::Operation *>> sent;
  /// What is left, by the number of its point.
  std::vector<llvm::SmallVector<mlir::Operation *>> carried;
  llvm::SmallVector<SettleOp> settles;
  /// By point, the command at which a stream knows that it is done.
  std::vector<int64_t> settledAt, settledForCopy;
};

} // namespace heddle::planir

#endif // HEDDLE_DIALECTS_PLAN_LIFETIMES_H
