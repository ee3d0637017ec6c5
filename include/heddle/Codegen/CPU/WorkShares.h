//===- WorkShares.h - Who does what of a kernel's work ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_CPU_WORKSHARES_H
#define HEDDLE_CODEGEN_CPU_WORKSHARES_H

#include "heddle/Codegen/CPU/LoopBuilder.h"

namespace heddle::cpu {

/// One of the threads of a launch: `thread` of `threads`. `taken` is the
/// address of a number that is 0 when the launch begins: of the pieces of work
/// that go to whoever comes first, those that are taken. A function of a kernel
/// has one such kind of pieces.
struct LaunchThread {
  mlir::Value thread, threads, taken;

  /// The begin and the end of its part of `units`, split evenly.
  std::pair<mlir::Value, mlir::Value> share(LoopBuilder &b,
                                            mlir::Value units) const;
  /// The number of the piece that it takes.
  mlir::Value take(LoopBuilder &b) const;
  /// Calls `body` with those of `units` units, adjacent ones taken together,
  /// that the thread takes.
  void forTaken(LoopBuilder &b, int64_t units,
                llvm::function_ref<void(mlir::Value)> body) const;
};

/// Shares the same units of work out, in one round or several. In each a thread
/// has a share of its own, which stays in its cache from launch to launch. What
/// is left goes to whoever comes first, piece by piece: so a thread whose core
/// is slower for a while, as others use it, too, holds nobody up for long.
class WorkShares {
public:
  /// A piece has `least` units or more. Too few units for a piece of every
  /// thread are all in the threads' shares.
  WorkShares(LoopBuilder &b, const LaunchThread &self, int64_t units,
             int64_t least);

  /// What one round passes on to the next: a piece that the thread has taken,
  /// and that is of a later round; -1: none.
  mlir::Value none() { return b.constant(-1); }
  /// Emits what the thread does in a round, and returns what it passes on.
  /// `body` is for several ranges of units, of which some may be empty. Every
  /// thread goes through the rounds from 0 on.
  mlir::Value
  emitRound(mlir::Value round, mlir::Value held,
            llvm::function_ref<void(mlir::Value begin, mlir::Value end)> body);

private:
  LoopBuilder &b;
  LaunchThread self;
  int64_t units;
  mlir::Value assigned; ///< Of all units, those of the threads' shares.
  mlir::Value unitsOfPiece, pieces; ///< Null where there are none.
};

} // namespace heddle::cpu

#endif // HEDDLE_CODEGEN_CPU_WORKSHARES_H
