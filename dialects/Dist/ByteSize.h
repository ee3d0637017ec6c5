//===- ByteSize.h - Bytes of elements and tensors ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes of types in memory. Every phase that plans memory uses these functions.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_BYTESIZE_H
#define HEDDLE_DIALECTS_DIST_BYTESIZE_H

#include "mlir/IR/BuiltinTypes.h"
#include <optional>

namespace heddle::dist {

/// Whether values of the type have a size in memory that is known when
/// compiling. This holds for floats and integers of 8, 16, 32 or 64 bits, and
/// for tensors, vectors and memrefs of them with static shapes. A memref must
/// be row-major; it may have padding between rows.
bool hasByteSize(mlir::Type type);

/// Whether the elements of states, and of values that a plan keeps in memory,
/// may have this type: f64, f32, bf16, f16, or an integer of 8, 32 or 64 bits.
bool isStorable(mlir::Type element);

/// The number of bytes of an element, or of all elements of a tensor, vector or
/// memref including the padding between rows. `hasByteSize(type)` must hold,
/// which verifiers check.
int64_t byteSize(mlir::Type type);

/// The leading dimension: the number of elements from the beginning of one row
/// (the last dimension) to the beginning of the next. Equals the length of a
/// row if there is no padding, and 1 for a scalar. Returns nullopt for memrefs
/// that are not row-major or have a dynamic shape.
std::optional<int64_t> leadingDimension(mlir::MemRefType type);

/// The memref with the shape and element type of a tensor and a leading
/// dimension of `leading` elements. If `leading` is 0, rows have no padding.
mlir::MemRefType memoryOf(mlir::RankedTensorType tensor, int64_t leading = 0);

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_BYTESIZE_H
