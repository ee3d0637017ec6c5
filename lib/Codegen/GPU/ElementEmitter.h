//===- ElementEmitter.h - Elements of tensors behind memrefs ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All mappings fuse the same way: whoever needs an element of a tensor emits
// the code of its producers right there (codegen::ElementEvaluator). What is
// read (kernel arguments, row statistics, an accumulator) is bound to a reader
// or to a buffer; everything between is element-wise and is inlined.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ELEMENTEMITTER_H
#define HEDDLE_LIB_CODEGEN_GPU_ELEMENTEMITTER_H

#include "heddle/Codegen/Common/ElementEvaluator.h"
#include "heddle/Codegen/GPU/Kernels.h"

namespace heddle::gpu {

/// Adjacent columns that one thread handles together: the values `columns[i]`
/// are `base` + i, and `base` is a multiple of their number. Buffers whose last
/// index is such a column are accessed by vectors of `columns.size()` elements.
struct Chunk {
  mlir::Value base;
  llvm::SmallVector<mlir::Value> columns;
  /// If there is a shape, `base` is no such multiple in its row, but the place
  /// of (row, base) is one among all elements of a tensor of this shape.
  llvm::SmallVector<mlir::Value> row;
  llvm::ArrayRef<int64_t> shape;

  int64_t width() const { return static_cast<int64_t>(columns.size()); }
};

/// Emits elements of the tensors of one kernel's body at the insertion point
/// of a builder: one element, or those of the chunk as a vector.
class ElementEmitter {
public:
  using Indices = llvm::ArrayRef<mlir::Value>;
  /// Emits the element of a bound tensor at some indices; null if it is not
  /// there.
  using Reader = std::function<mlir::Value(Indices)>;

  ElementEmitter(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder),
        evaluator(builder, loc, builder.getIndexType(), /*lanes=*/1) {}

  /// Elements of `tensor` come from `reader`.
  void bind(mlir::Value tensor, Reader reader);
  /// Elements of `tensor` are loaded from `buffer`, by vectors within a chunk.
  void bindBuffer(mlir::Value tensor, mlir::Value buffer);
  /// The body's scalar `from` is `to` in the code that is emitted.
  void bindScalar(mlir::Value from, mlir::Value to) {
    evaluator.setScalar(from, to);
  }
  /// Every tensor has one index, which counts its elements.
  void setFlat() { evaluator.setFlat(); }

  /// Emits an operation of the body outside of any tensor and binds what it
  /// gives.
  mlir::LogicalResult scalar(mlir::Operation &op);

  /// Emits an element of `tensor`, or says in `reason` why it cannot.
  mlir::FailureOr<mlir::Value> element(mlir::Value tensor, Indices indices);
  /// Emits the elements of `tensor` at `leading` and each column of the chunk:
  /// a vector, or a scalar if the chunk has one column.
  mlir::FailureOr<mlir::Value> elements(mlir::Value tensor, Indices leading);
  /// Makes `values`, what `elements` would give, the elements of `tensor`
  /// there, in the current scope.
  void define(mlir::Value tensor, Indices leading, mlir::Value values);
  /// Emits the payload of one iteration of `op` with these values of its
  /// outputs; returns the yielded values.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  payload(mlir::linalg::GenericOp op, Indices indices,
          llvm::ArrayRef<mlir::Value> outputs);
  /// Emits what a reduction over columns combines at `leading` and each column
  /// of the chunk: a vector, or a scalar if the chunk has one column.
  mlir::FailureOr<mlir::Value> terms(mlir::linalg::GenericOp reduction,
                                     Indices leading);

  /// Emits what `elements` of `tensor` at `leading` will need and is the same
  /// for all columns.
  void hoist(mlir::Value tensor, Indices leading);
  /// The same for `terms`.
  void hoistTerms(mlir::linalg::GenericOp reduction, Indices leading);
  /// Emits what elements of `tensor` need and is the same for all of them.
  void hoistConstants(mlir::Value tensor) { evaluator.hoistConstants(tensor); }

  /// Values emitted in a scope, a region or the body of a loop, are not used
  /// after it. Columns in it are those of a chunk.
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

  /// Why the last request failed.
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
  /// `element` as a vector in a chunk of several columns, as a scalar in
  /// others.
  mlir::Value ofChunk(Element element);
  /// `value`, unless something failed.
  mlir::FailureOr<mlir::Value> checked(mlir::Value value) const;

  mlir::OpBuilder &builder;
  codegen::ElementEvaluator evaluator;
  Chunk chunk;
  /// (buffer, start) and the vector that was loaded there.
  std::map<std::vector<void *>, mlir::Value> vectors;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ELEMENTEMITTER_H
