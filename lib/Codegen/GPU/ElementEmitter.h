//===- ElementEmitter.h - Elements of tensors as code -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All mappings of kernels fuse operations in the same way: code that needs an
// element of a tensor emits the code of its producers inline
// (codegen::ElementEvaluator). Inputs (kernel arguments, row statistics, an
// accumulator) are bound to readers or buffers. All operations in between are
// element-wise.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ELEMENTEMITTER_H
#define HEDDLE_LIB_CODEGEN_GPU_ELEMENTEMITTER_H

#include "heddle/Codegen/Common/ElementEvaluator.h"
#include "heddle/Codegen/GPU/Kernels.h"

namespace heddle::gpu {

/// Adjacent columns that one thread handles together: `columns[i]` is `base` +
/// i, and `base` is a multiple of their number. Buffers whose last index is a
/// column of the chunk are accessed by vectors of `columns.size()` elements.
struct Chunk {
  mlir::Value base;
  llvm::SmallVector<mlir::Value> columns;
  /// If this shape is given, `base` need not be a multiple of the number of
  /// columns. Instead, the linear index of (row, base) in a tensor of this
  /// shape is such a multiple.
  llvm::SmallVector<mlir::Value> row;
  llvm::ArrayRef<int64_t> shape;

  int64_t width() const { return static_cast<int64_t>(columns.size()); }
};

/// Emits elements of the tensors in a kernel's body at the insertion point of a
/// builder: one element, or those of a chunk as a vector.
class ElementEmitter {
public:
  using Indices = llvm::ArrayRef<mlir::Value>;
  /// Emits the element of a bound tensor at the given indices. Returns null if
  /// the tensor has no element there.
  using Reader = std::function<mlir::Value(Indices)>;

  ElementEmitter(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder),
        evaluator(builder, loc, builder.getIndexType(), /*lanes=*/1) {}

  /// Binds `tensor`: its elements come from `reader`.
  void bind(mlir::Value tensor, Reader reader);
  /// Binds `tensor`: its elements are loaded from `buffer`, as vectors within a
  /// chunk.
  void bindBuffer(mlir::Value tensor, mlir::Value buffer);
  /// Replaces the body's scalar `from` by `to` in emitted code.
  void bindScalar(mlir::Value from, mlir::Value to) {
    evaluator.setScalar(from, to);
  }
  /// Gives every tensor a single index, which counts its elements.
  void setFlat() { evaluator.setFlat(); }

  /// Emits an operation of the body that is outside of any tensor, and binds
  /// its results.
  mlir::LogicalResult scalar(mlir::Operation &op);

  /// Emits an element of `tensor`. On failure, `reason` says why.
  mlir::FailureOr<mlir::Value> element(mlir::Value tensor, Indices indices);
  /// Emits the elements of `tensor` at `leading` and each column of the chunk:
  /// a vector, or a scalar for a chunk of one column.
  mlir::FailureOr<mlir::Value> elements(mlir::Value tensor, Indices leading);
  /// Sets the elements of `tensor` at `leading` in the current scope to
  /// `values`, which has the form that `elements` returns.
  void define(mlir::Value tensor, Indices leading, mlir::Value values);
  /// Emits one iteration of `op` with `outputs` as values of its outputs.
  /// Returns the values that it yields.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  payload(mlir::linalg::GenericOp op, Indices indices,
          llvm::ArrayRef<mlir::Value> outputs);
  /// Emits the terms that a reduction over columns combines, at `leading` and
  /// each column of the chunk: a vector, or a scalar for a chunk of one column.
  mlir::FailureOr<mlir::Value> terms(mlir::linalg::GenericOp reduction,
                                     Indices leading);

  /// Emits the part of `elements` of `tensor` at `leading` that is the same for
  /// all columns.
  void hoist(mlir::Value tensor, Indices leading);
  /// Emits the part of `terms` of `reduction` at `leading` that is the same for
  /// all columns.
  void hoistTerms(mlir::linalg::GenericOp reduction, Indices leading);
  /// Emits the part of the code of `tensor` that is the same for all its
  /// elements.
  void hoistConstants(mlir::Value tensor) { evaluator.hoistConstants(tensor); }

  /// Marks a region or the body of a loop: values that are emitted in it are
  /// not reused after it. `chunk` is the current chunk in it.
  class Scope {
  public:
    explicit Scope(ElementEmitter &emitter, Chunk chunk = {});
    ~Scope();

  private:
    ElementEmitter &emitter;
    codegen::ElementEvaluator::Scope values;
    Chunk outer;
    std::map<std::vector<void *>, mlir::Value> outerVectors;
  };

  /// The reason of the last failure.
  std::string reason() const {
    return evaluator.failure() ? evaluator.failure()->reason : "";
  }

private:
  using Point = codegen::Point;
  using Element = codegen::Element;

  void setChunk(Chunk newChunk);
  Point pointOf(Indices indices) const;
  Point chunkPoint(Indices leading) const;
  Point anyColumn(Indices leading) const;
  Element readLanes(const Reader &reader, const Point &at);
  Element load(mlir::Value buffer, const Point &at);
  mlir::Value loadElement(mlir::Value buffer, Indices indices);
  mlir::Value loadFromAccess(mlir::Value buffer, Indices indices);
  mlir::Value loadChunk(mlir::Value buffer, Indices start);
  bool startsChunk(mlir::Value column) const;
  bool isAligned(mlir::Value buffer, Indices start) const;
  /// Returns the element as a vector if the chunk has several columns, else as
  /// a scalar.
  mlir::Value ofChunk(Element element);
  /// Returns `value`, or failure if the evaluation has failed.
  mlir::FailureOr<mlir::Value> checked(mlir::Value value) const;

  mlir::OpBuilder &builder;
  codegen::ElementEvaluator evaluator;
  Chunk chunk;
  /// Vectors that are loaded already, by (buffer, start).
  std::map<std::vector<void *>, mlir::Value> vectors;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ELEMENTEMITTER_H
