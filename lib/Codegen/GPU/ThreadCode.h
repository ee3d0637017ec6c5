//===- ThreadCode.h - The code of one thread, near PTX ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A builder for code in which every instruction counts. It uses 32-bit
// integers, pointers with byte offsets, and intrinsics that become single PTX
// instructions.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_THREADCODE_H
#define HEDDLE_LIB_CODEGEN_GPU_THREADCODE_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

namespace heddle::gpu {

/// Short forms of builder calls. Integers are i32, except the results of
/// `wide`.
class ThreadCode {
public:
  ThreadCode(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;

  template <typename Op, typename... Args> mlir::Value create(Args &&...args) {
    return builder.createOrFold<Op>(loc, std::forward<Args>(args)...);
  }

  mlir::Value constant(int64_t value);
  mlir::Value zero(mlir::Type type);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value a, int64_t b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, int64_t b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, int64_t b);
  mlir::Value rem(mlir::Value a, mlir::Value b);
  mlir::Value rem(mlir::Value a, int64_t b);
  mlir::Value exclusiveOr(mlir::Value a, mlir::Value b);
  /// Returns whether a < b, as signed numbers.
  mlir::Value less(mlir::Value a, mlir::Value b);
  mlir::Value less(mlir::Value a, int64_t b);
  /// Returns the conjunction of two conditions. A null condition counts as
  /// true.
  mlir::Value both(mlir::Value a, mlir::Value b);
  /// Returns `value` if the condition holds, else zero. A null condition counts
  /// as true.
  mlir::Value orZero(mlir::Value condition, mlir::Value value);
  /// `value`, extended to 64 bits.
  mlir::Value wide(mlir::Value value);
  mlir::Value toIndex(mlir::Value value);
  mlir::Value toI32(mlir::Value index);
  /// `widen` converts a float, or a vector of floats, to f32. `narrow` rounds
  /// f32 to `type`.
  mlir::Value widen(mlir::Value value);
  mlir::Value narrow(mlir::Value value, mlir::Type type);
  /// Returns the indices (of type index) of the element with the linear index
  /// `linear` in a row-major tensor of this shape.
  llvm::SmallVector<mlir::Value> split(mlir::Value linear,
                                       llvm::ArrayRef<int64_t> shape);

  mlir::Value threadId();
  mlir::Value blockId(mlir::gpu::Dimension dimension);
  void barrier();

  /// A pointer to the first element of a memref in global memory.
  mlir::Value globalPointer(mlir::Value buffer);
  /// A pointer to dynamic shared memory, whose size the launch sets.
  mlir::Value sharedMemory();
  /// `pointer` plus `bytes`.
  mlir::Value at(mlir::Value pointer, mlir::Value bytes);
  mlir::Value at(mlir::Value pointer, int64_t bytes);
  /// Returns `pointer` with those bits of its address flipped that are set in
  /// `bits`.
  mlir::Value flip(mlir::Value pointer, int64_t bits);
  /// Loads or stores through a pointer, which must be aligned to the size of
  /// the access.
  mlir::Value load(mlir::Type type, mlir::Value pointer);
  void store(mlir::Value value, mlir::Value pointer);
  mlir::Value loadVector(mlir::Type element, int64_t count,
                         mlir::Value pointer);
  void storeVector(llvm::ArrayRef<mlir::Value> elements, mlir::Value pointer);
  llvm::SmallVector<mlir::Value> elements(mlir::Value vector);

  /// Calls an intrinsic. Returns null if it has no result.
  mlir::Value call(llvm::StringRef intrinsic, mlir::Type result,
                   mlir::ValueRange operands);
  /// The members of the struct that an intrinsic returns.
  llvm::SmallVector<mlir::Value> members(mlir::Value aggregate);

  /// Emits cp.async of `bytes` bytes (4, 8 or 16). Copies the first `present`
  /// bytes from `source`, and fills the others with zeros.
  void copyAsync(mlir::Value target, mlir::Value source, int64_t bytes,
                 mlir::Value present);
  void commitCopies();
  /// Waits until at most `pending` of the thread's commit groups of copies are
  /// unfinished.
  void waitForCopies(int64_t pending);
};

/// Emits PTX: `text`, whose operands are named as LLVM's inline assembly does,
/// with `constraints` in the order of results and operands.
mlir::LLVM::InlineAsmOp emitPtx(mlir::OpBuilder &builder, mlir::Location loc,
                                mlir::TypeRange results,
                                mlir::ValueRange operands, llvm::StringRef text,
                                llvm::StringRef constraints,
                                bool hasSideEffects);

/// Combines the 32-bit values of each group of `lanes` adjacent lanes of a
/// warp. All lanes of the group get the same result. `lanes` is a power of two.
mlir::Value
acrossLanes(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
            int64_t lanes,
            llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_THREADCODE_H
