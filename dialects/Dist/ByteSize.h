//===- ByteSize.h - Bytes of elements and tensors ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_BYTESIZE_H
#define HEDDLE_DIALECTS_DIST_BYTESIZE_H

#include "mlir/IR/BuiltinTypes.h"
#include <optional>

namespace heddle::dist {

/// Whether values of the type have a size in memory: floats and integers of 8,
/// 16, 32 or 64 bits, and tensors, vectors and memrefs of them with static
/// shapes, memrefs by rows.
bool hasByteSize(mlir::Type type);

/// Whether states and values that a plan holds may have such elements: f32,
/// bf16, f16, and integers of 8, 32 and 64 bits.
bool isStorable(mlir::Type element);

/// Bytes of an element, or of all elements of a tensor, vector or memref, gaps
/// between rows included. The type must have a size: verifiers refuse others.
int64_t byteSize(mlir::Type type);

/// The elements from the begin of a row, which is the last dimension, to that
/// of the next; a row's length where there are no gaps, and 1 for a single
/// element. None for other layouts, and for dynamic shapes.
std::optional<int64_t> rowPitch(mlir::MemRefType type);

/// Memory of a tensor's shape and element type, whose rows begin `pitch`
/// elements apart; 0: without gaps.
mlir::MemRefType memoryOf(mlir::RankedTensorType tensor, int64_t pitch = 0);

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_BYTESIZE_H
