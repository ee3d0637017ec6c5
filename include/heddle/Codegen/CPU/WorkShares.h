//===- WorkShares.h - Distributes a kernel's work over threads --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Distributes work over the threads of a kernel launch: in static shares, and
// in pieces that threads take dynamically from a shared counter.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_CPU_WORKSHARES_H
#define HEDDLE_CODEGEN_CPU_WORKSHARES_H

#include "heddle/Codegen/CPU/LoopBuilder.h"

namespace heddle::cpu {

/// Thread `thread` of a launch with `threads` threads. `taken` is the address
/// of a counter that all threads share and that is 0 when the launch begins. It
/// counts the pieces of work that threads have taken dynamically. Nothing
/// resets the counter, so the function of a kernel can have only one loop
/// `forTaken` or one WorkShares.
struct LaunchThread {
  mlir::Value thread, threads, taken;

  /// Splits `units` units of work evenly between the threads. Returns the begin
  /// and the end of this thread's share.
  std::pair<mlir::Value, mlir::Value> share(LoopBuilder &b,
                                            mlir::Value units) const;
  /// Takes the next piece of work: increments the counter atomically. Returns
  /// the old value of the counter, which is the index of the piece.
  mlir::Value take(LoopBuilder &b) const;
  /// Emits a loop that takes pieces of adjacent units until all `units` units
  /// are taken, and calls `body` with each unit that this thread has taken.
  void forTaken(LoopBuilder &b, int64_t units,
                llvm::function_ref<void(mlir::Value)> body) const;
};

/// Splits units of work between threads, in one round or several rounds over
/// the same units. In each round a thread first computes its static share,
/// whose data stay in its core's cache from launch to launch. Threads then take
/// pieces of the remaining units dynamically, so that a thread whose core is
/// slow for a while (because other processes use it) does not delay the others
/// for long.
class WorkShares {
public:
  /// Each thread gets a static share of the units. Threads take the remaining
  /// units dynamically, in pieces of at least `least` units. If there are not
  /// enough units for one piece per thread, the static shares have all units.
  WorkShares(LoopBuilder &b, const LaunchThread &self, int64_t units,
             int64_t least);

  /// Threads take the pieces of all rounds (passes over the units) from one
  /// counter. When a round has no more pieces, a thread gets a piece of a later
  /// round. The thread keeps this piece and passes it to that round as `held`.
  /// This function returns the value of `held` for the first round: no piece.
  mlir::Value none() { return b.constant(-1); }
  /// Emits this thread's work in round `round`: a loop over ranges of units.
  /// `body` emits the code for one range, which may be empty. Returns the index
  /// of a piece of a later round that this thread has taken, or `none()`. The
  /// caller must pass the index to the next round as `held`. Every thread must
  /// execute the rounds in order, from 0.
  mlir::Value
  emitRound(mlir::Value round, mlir::Value held,
            llvm::function_ref<void(mlir::Value begin, mlir::Value end)> body);

private:
  LoopBuilder &b;
  LaunchThread self;
  int64_t units;
  mlir::Value assigned; ///< Number of units in the static shares.
  /// The number of units of work in a piece, and the number of pieces; null if
  /// there are no pieces.
  mlir::Value unitsOfPiece, pieces;
};

} // namespace heddle::cpu

#endif // HEDDLE_CODEGEN_CPU_WORKSHARES_H
