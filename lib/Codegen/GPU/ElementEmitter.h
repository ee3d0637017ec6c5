//===- ElementEmitter.h - Single elements of linalg on tensors --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Both mappings, rows and matrix products, fuse the same way: whoever needs an
// element of a tensor emits the scalar code of its producers right there. What
// is read (kernel arguments, row statistics, an accumulator) is bound to
// a reader; everything between is element-wise and is inlined.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ELEMENTEMITTER_H
#define HEDDLE_LIB_CODEGEN_GPU_ELEMENTEMITTER_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseMap.h"
#include <functional>

namespace heddle::gpu {

/// Adjacent columns that one thread handles together: the values `columns[i]`
/// are `base` + i. Buffers whose last index is such a column are accessed by
/// vectors of `columns.size()` elements.
struct Chunk {
  mlir::Value base;
  llvm::SmallVector<mlir::Value> columns;

  int64_t width() const { return static_cast<int64_t>(columns.size()); }
};

/// Emits elements of the tensors of one kernel's body at the insertion point
/// of a builder.
class ElementEmitter {
public:
  using Indices = llvm::ArrayRef<mlir::Value>;
  /// Emits the element of a bound tensor at some indices.
  using Reader = std::function<mlir::Value(Indices)>;

  ElementEmitter(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  /// Elements of `tensor` come from `reader`.
  void bind(mlir::Value tensor, Reader reader);
  /// Elements of `tensor` are loaded from `buffer`, by vectors within a chunk.
  void bindBuffer(mlir::Value tensor, mlir::Value buffer);
  /// The body's scalar `from` is `to` in the code that is emitted.
  void bindScalar(mlir::Value from, mlir::Value to) { scalars.map(from, to); }

  /// Emits an operation of the body outside of any tensor and binds what it
  /// gives.
  mlir::LogicalResult scalar(mlir::Operation &op) {
    return cloneScalar(op, {}, scalars);
  }

  /// Emits an element of `tensor`, or says in `reason` why it cannot.
  mlir::FailureOr<mlir::Value> element(mlir::Value tensor, Indices indices);
  /// Emits the payload of one iteration of `op` with these values of its
  /// outputs; returns the yielded values.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  payload(mlir::linalg::GenericOp op, Indices indices,
          llvm::ArrayRef<mlir::Value> outputs);

  /// Starts a scope: values emitted before a region was left, or in a loop
  /// body, are not used after it.
  void enterScope(Chunk newChunk = {});

  /// Why the last request failed.
  const std::string &reason() const { return failureReason; }

private:
  mlir::FailureOr<mlir::Value> compute(mlir::Value tensor, Indices indices);
  mlir::FailureOr<mlir::Value> genericElement(mlir::linalg::GenericOp op,
                                              unsigned result, Indices indices);
  mlir::Value loadBuffer(mlir::Value buffer, Indices indices);
  mlir::LogicalResult cloneScalar(mlir::Operation &op, Indices indices,
                                  mlir::IRMapping &mapping);
  llvm::SmallVector<mlir::Value> apply(mlir::AffineMap map, Indices indices);
  mlir::LogicalResult fail(const llvm::Twine &why);

  using Key = std::pair<mlir::Value, llvm::SmallVector<mlir::Value>>;

  mlir::OpBuilder &builder;
  mlir::Location loc;
  llvm::DenseMap<mlir::Value, Reader> readers;
  mlir::IRMapping scalars;
  Chunk chunk;
  std::vector<std::pair<Key, mlir::Value>> elements;
  std::vector<std::pair<Key, mlir::Value>> vectors;
  std::string failureReason;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ELEMENTEMITTER_H
