//===- ElementEmitter.h - Elements of tensors as code -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All kernels for GPUs fuse operations in the same way: where an element of a
// tensor is needed, the code of the operations that produce the element is
// emitted inline (codegen::ElementEvaluator). Inlining stops at tensors that
// are bound to a reader or a buffer: kernel arguments, values with one element
// per row that have been computed before, and accumulators of reductions. All
// operations between these tensors and the results are element-wise.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ELEMENTEMITTER_H
#define HEDDLE_LIB_CODEGEN_GPU_ELEMENTEMITTER_H

#include "heddle/Codegen/Common/ElementEvaluator.h"
#include "heddle/Codegen/GPU/Kernels.h"

namespace heddle::gpu {

/// Adjacent columns that one thread handles together. `base` is the first of
/// them: `columns[i]` is `base` + i. If `row` is empty, `base` is a multiple of
/// the number of columns. A buffer whose last index is a column of the chunk is
/// accessed by vectors of `columns.size()` elements.
struct Chunk {
  mlir::Value base;
  llvm::SmallVector<mlir::Value> columns;
  /// Set only if the length of rows is not a multiple of `width()`. The first
  /// chunk at an aligned address then begins at a different column in each row.
  /// `shape` is the shape of the tensor. `row` has the indices of the chunk's
  /// elements in all dimensions but the last. The chunk's first element has the
  /// indices `row`, then `base`; its linear index is a multiple of `width()`,
  /// but `base` need not be one.
  llvm::SmallVector<mlir::Value> row;
  llvm::ArrayRef<int64_t> shape;

  int64_t width() const { return static_cast<int64_t>(columns.size()); }
};

/// Emits code at the insertion point of a builder that computes elements of the
/// tensors in a kernel's body: one element, or a vector for the adjacent
/// columns of a thread (its chunk).
class ElementEmitter {
public:
  using Indices = llvm::ArrayRef<mlir::Value>;
  /// Emits the element of a tensor at the given indices; see `bind`. Returns
  /// null if the tensor has no element there.
  using Reader = std::function<mlir::Value(Indices)>;

  ElementEmitter(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder),
        evaluator(builder, loc, builder.getIndexType(), /*lanes=*/1) {}

  /// Binds `tensor`: its elements come from `reader`.
  void bind(mlir::Value tensor, Reader reader);
  /// Binds `tensor`: its elements are loaded from `buffer`. The elements in
  /// adjacent columns of a thread are loaded as a vector.
  void bindBuffer(mlir::Value tensor, mlir::Value buffer);
  /// In emitted code, replaces the scalar `from` of the kernel's body by `to`.
  void bindScalar(mlir::Value from, mlir::Value to) {
    evaluator.setScalar(from, to);
  }
  /// Makes all tensors flat: code refers to an element by its linear index
  /// alone.
  void setFlat() { evaluator.setFlat(); }

  /// Emits an operation on scalars, such as index arithmetic, and binds its
  /// results.
  mlir::LogicalResult scalar(mlir::Operation &op);

  /// Emits an element of `tensor`. On failure, `reason` says why.
  mlir::FailureOr<mlir::Value> element(mlir::Value tensor, Indices indices);
  /// Emits the elements of `tensor` in the thread's adjacent columns (its
  /// chunk). `leading` are their indices in all dimensions but the last.
  /// Returns a vector, or a scalar if the chunk has one column.
  mlir::FailureOr<mlir::Value> elements(mlir::Value tensor, Indices leading);
  /// Defines the elements of `tensor` in the thread's adjacent columns (its
  /// chunk), with the other indices `leading`. Later code in the current scope
  /// uses `values` instead of computing them. `values` is a vector or a scalar,
  /// as `elements` returns it.
  void define(mlir::Value tensor, Indices leading, mlir::Value values);
  /// Defines one element of `tensor`, which later code in the current scope
  /// uses instead of computing it.
  void defineElement(mlir::Value tensor, Indices indices, mlir::Value value);
  /// Emits one iteration of the body of `op`, with `outputs` as the values of
  /// its output operands. Returns the values that the body yields.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  payload(mlir::linalg::GenericOp op, Indices indices,
          llvm::ArrayRef<mlir::Value> outputs);
  /// Emits the terms that a reduction over columns combines, for the thread's
  /// adjacent columns (its chunk). `leading` are the indices in all dimensions
  /// but the last. Returns a vector, or a scalar if the chunk has one column.
  mlir::FailureOr<mlir::Value> terms(mlir::linalg::GenericOp reduction,
                                     Indices leading);

  /// Emits, before a loop over columns, what is the same for all columns in the
  /// code that `elements(tensor, leading)` will emit in the loop.
  void hoist(mlir::Value tensor, Indices leading);
  /// Emits, before a loop over columns, what is the same for all columns in the
  /// code that `terms(reduction, leading)` will emit in the loop.
  void hoistTerms(mlir::linalg::GenericOp reduction, Indices leading);
  /// Emits, before any loop, the code for `tensor` that is the same for all its
  /// elements.
  void hoistConstants(mlir::Value tensor) { evaluator.hoistConstants(tensor); }

  /// Marks a region or the body of a loop. Values that are emitted while the
  /// scope exists are not reused after it, since they do not dominate later
  /// code. `chunk` describes the adjacent columns that the thread computes in
  /// the scope.
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
  /// Returns the element as a vector if a thread has several adjacent columns,
  /// else as a scalar.
  mlir::Value ofChunk(Element element);
  /// Returns `value`, or failure if the evaluation has failed.
  mlir::FailureOr<mlir::Value> checked(mlir::Value value) const;

  mlir::OpBuilder &builder;
  codegen::ElementEvaluator evaluator;
  Chunk chunk;
  /// Vectors that the current scope has loaded already, which later accesses
  /// reuse. The key is the buffer and the index of the vector's first element.
  std::map<std::vector<void *>, mlir::Value> vectors;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ELEMENTEMITTER_H
