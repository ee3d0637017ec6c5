//===- CacheWriter.h - Writes to the paged cache ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_CACHEWRITER_H
#define HEDDLE_LIB_CODEGEN_GPU_CACHEWRITER_H

#include "CacheAddresses.h"

namespace heddle::gpu {

/// Emits code by which a warp writes the key or the value of one head of one
/// token. Its lanes have the features in turn.
class CacheWriter {
public:
  using Value = mlir::Value;

  explicit CacheWriter(CacheAddresses &a);

  /// Writes the key (`which` is 1) or the value (2) of a head of a token that
  /// exists and has this position. Fails if the kernel cannot compute a
  /// feature.
  mlir::LogicalResult write(int64_t which, Value row, Value token, Value head,
                            Value position);
  /// Writes the key if `item` is 0, and the value if it is 1.
  mlir::LogicalResult writeItem(Value item, Value row, Value token, Value head,
                                Value position);

private:
  Value number(float value);
  Value encode(Value scale);
  void store(Value to, Value first, int64_t stride, Value unit);

  ThreadCode &c;
  CacheAddresses &a;
  Value lane;
  llvm::SmallVector<Value> features; ///< Of the lane, as f32.
};

/// Whether the kernel computes the results of `write` in the memory of its
/// operands.
bool isWrittenInPlace(planir::KernelOp kernel, nn::CacheWriteOp write);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_CACHEWRITER_H
