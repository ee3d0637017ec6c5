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

/// Whether values of the type have a known size in memory: floats and integers
/// of 8, 16, 32 or 64 bits, and tensors, vectors and memrefs of them with
/// static shapes. A memref must be row-major, with padding between rows at
/// most.
bool hasByteSize(mlir::Type type);

/// Whether states and values that a plan holds may have such elements: f32,
/// bf16, f16, and integers of 8, 32 and 64 bits.
bool isStorable(mlir::Type element);

/// Bytes of an element, or of all elements of a tensor, vector or memref, with
/// the padding between rows. `hasByteSize(type)` must hold: verifiers refuse
/// others.
int64_t byteSize(mlir::Type type);

/// The leading dimension: elements from the begin of a row (the last dimension)
/// to the begin of the next. It is the row's length without padding, and 1 for
/// rank 0. Nothing for other layouts and dynamic shapes.
std::optional<int64_t> leadingDimension(mlir::MemRefType type);

/// The memref with the shape and element type of a tensor, whose leading
/// dimension is `leading` elements; 0: no padding between rows.
mlir::MemRefType memoryOf(mlir::RankedTensorType tensor, int64_t leading = 0);

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_BYTESIZE_H
