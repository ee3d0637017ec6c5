//===- ThreadCode.h - The code of one thread, near PTX ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where every instruction counts, code is written with 32-bit integers,
// pointers with offsets in bytes, and PTX's instructions by their intrinsics.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_THREADCODE_H
#define HEDDLE_LIB_CODEGEN_GPU_THREADCODE_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

namespace heddle::gpu {

/// Short forms. Integers are i32 unless they were made `wide`.
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
  /// a < b as signed numbers.
  mlir::Value less(mlir::Value a, mlir::Value b);
  mlir::Value less(mlir::Value a, int64_t b);
  /// Whether both conditions hold; a null one does.
  mlir::Value both(mlir::Value a, mlir::Value b);
  /// `value` if the condition holds, which a null one does, else zero.
  mlir::Value orZero(mlir::Value condition, mlir::Value value);
  /// In 64 bits.
  mlir::Value wide(mlir::Value value);
  mlir::Value toIndex(mlir::Value value);
  mlir::Value toI32(mlir::Value index);
  /// A float, or a vector of them, in f32; and one in f32 rounded to `type`.
  mlir::Value widen(mlir::Value value);
  mlir::Value narrow(mlir::Value value, mlir::Type type);
  /// `linear` as indices of a row-major space of this shape, of type index.
  llvm::SmallVector<mlir::Value> split(mlir::Value linear,
                                       llvm::ArrayRef<int64_t> shape);

  mlir::Value threadId();
  mlir::Value blockId(mlir::gpu::Dimension dimension);
  void barrier();

  /// The first element of a memref in global memory.
  mlir::Value globalPointer(mlir::Value buffer);
  /// The memory whose size the launch states.
  mlir::Value sharedMemory();
  /// `pointer` moved by bytes.
  mlir::Value at(mlir::Value pointer, mlir::Value bytes);
  mlir::Value at(mlir::Value pointer, int64_t bytes);
  /// `pointer` with these bits of its address flipped.
  mlir::Value flip(mlir::Value pointer, int64_t bits);
  /// Accesses aligned to their size.
  mlir::Value load(mlir::Type type, mlir::Value pointer);
  void store(mlir::Value value, mlir::Value pointer);
  mlir::Value loadVector(mlir::Type element, int64_t count,
                         mlir::Value pointer);
  void storeVector(llvm::ArrayRef<mlir::Value> elements, mlir::Value pointer);
  llvm::SmallVector<mlir::Value> elements(mlir::Value vector);

  /// Calls an intrinsic; null without a result.
  mlir::Value call(llvm::StringRef intrinsic, mlir::Type result,
                   mlir::ValueRange operands);
  /// The members of what an intrinsic gives.
  llvm::SmallVector<mlir::Value> members(mlir::Value aggregate);

  /// cp.async of `bytes` (4, 8 or 16), of which `present` are read and the
  /// others are zeros.
  void copyAsync(mlir::Value target, mlir::Value source, int64_t bytes,
                 mlir::Value present);
  void commitCopies();
  /// Waits until at most `pending` groups of copies are under way.
  void waitForCopies(int64_t pending);
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_THREADCODE_H
