//===- LoopBuilder.h - Builds loops over raw memory -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_CPU_LOOPBUILDER_H
#define HEDDLE_CODEGEN_CPU_LOOPBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"

namespace heddle::cpu {

/// Builds i64 arithmetic, loops, and loads and stores of vectors through raw
/// pointers (!llvm.ptr), with short names.
class LoopBuilder {
public:
  LoopBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;

  template <typename Op, typename... Args> mlir::Value create(Args &&...args) {
    return builder.create<Op>(loc, std::forward<Args>(args)...);
  }

  // Arithmetic on i64.
  mlir::Value constant(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value a, int64_t b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, int64_t b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, int64_t b);
  mlir::Value rem(mlir::Value a, int64_t b);
  mlir::Value ceilDiv(mlir::Value a, int64_t b);
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value less(mlir::Value a, mlir::Value b);
  mlir::Value equal(mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value toI64(mlir::Value value);
  mlir::Value toIndex(mlir::Value value);

  /// `pointer` advanced by `index` elements of `type`.
  mlir::Value advance(mlir::Value pointer, mlir::Type type, mlir::Value index);
  mlir::Value advance(mlir::Value pointer, mlir::Type type, int64_t index);

  /// Returns the type with which memory of `type`, a scalar or a vector, is
  /// accessed: i16 for bf16, else `type`.
  mlir::Type accessType(mlir::Type type);
  /// Loads a value of type `type`, a scalar or a vector; `alignment` is in
  /// bytes. Lanes outside of `mask` are not read and are zero; a null mask
  /// means all lanes.
  mlir::Value load(mlir::Type type, mlir::Value pointer, unsigned alignment,
                   mlir::Value mask = {});
  void store(mlir::Value value, mlir::Value pointer, unsigned alignment,
             mlir::Value mask = {});

  /// Prefetches the cache line at `pointer` into the second-level cache.
  void prefetch(mlir::Value pointer);

  /// A mask of `lanes` lanes in which the first `count` are true; none if
  /// `count` is negative, and all if it exceeds `lanes`.
  mlir::Value mask(mlir::Value count, int64_t lanes);
  mlir::Value shuffle(mlir::Value a, mlir::Value b,
                      llvm::ArrayRef<int64_t> lanes);
  /// Interleaves the lanes of `a` and `b`: a0, b0, a1, b1, ...
  mlir::Value interleave(mlir::Value a, mlir::Value b);
  /// `mask` (null: all lanes) if `condition` is true, otherwise no lanes.
  mlir::Value both(mlir::Value mask, mlir::Value condition, int64_t lanes);
  mlir::Value zeros(mlir::VectorType type);
  /// Converts a float or a vector of floats to f32.
  mlir::Value widen(mlir::Value value);
  /// Rounds an f32 or a vector of f32 to the element type `element`.
  mlir::Value narrow(mlir::Value value, mlir::Type element);

  using LoopBody = llvm::function_ref<void(mlir::Value)>;
  void forLoop(mlir::Value begin, mlir::Value end, int64_t step, LoopBody body);

  using Values = llvm::SmallVector<mlir::Value>;
  using CarriedBody = llvm::function_ref<Values(mlir::Value, mlir::ValueRange)>;
  /// Emits a loop that carries values from one iteration to the next, and
  /// returns the values after the last iteration.
  Values forLoop(mlir::Value begin, mlir::Value end, int64_t step,
                 mlir::ValueRange init, CarriedBody body);

  void ifThen(mlir::Value condition, llvm::function_ref<void()> then,
              llvm::function_ref<void()> otherwise = nullptr);

  /// The address of the first element of `value` if it is a memref; `value`
  /// itself if it is a pointer.
  mlir::Value pointerTo(mlir::Value value);
};

} // namespace heddle::cpu

#endif // HEDDLE_CODEGEN_CPU_LOOPBUILDER_H
