//===- TensorEvaluator.h - Elements of tensors in memory --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_TENSOREVALUATOR_H
#define HEDDLE_LIB_CODEGEN_CPU_TENSOREVALUATOR_H

#include "heddle/Codegen/CPU/CpuTarget.h"
#include "heddle/Codegen/CPU/LoopBuilder.h"
#include "heddle/Codegen/Common/ElementEvaluator.h"

namespace heddle::cpu {

using codegen::Coordinate;
using codegen::Element;
using codegen::Point;
using codegen::producingGenerics;

/// Emits code for x86-64 that computes elements of tensors. Tensors are in raw
/// memory and coordinates are i64. Code for several elements uses the target's
/// vectors, and a mask disables lanes beyond the end of a row.
class TensorEvaluator : public codegen::ElementEvaluator {
public:
  TensorEvaluator(LoopBuilder &b, const CpuTarget &target)
      : ElementEvaluator(b.builder, b.loc, b.builder.getI64Type(),
                         target.lanes()),
        b(b) {}

  /// From now on, reads `tensor` from memory at `pointer`. With `oneRow` this
  /// memory holds only the row that is being computed (one index into all
  /// dimensions but the last).
  void setMemory(mlir::Value tensor, mlir::Value pointer, bool oneRow = false);
  /// Sets the mask of enabled lanes; null: all.
  void setMask(mlir::Value newMask) { mask = newMask; }

  /// Loads an element of `tensor` as if the tensor were at `pointer`, whatever
  /// `setMemory` said.
  Element loadFrom(mlir::Value tensor, mlir::Value pointer, const Point &at) {
    return load(tensor, pointer, /*oneRow=*/false, at);
  }
  /// Stores `element` as the element of `tensor` with the coordinates `at`. The
  /// tensor begins at address `pointer`. `element` is a vector of elements or
  /// the same scalar for all lanes.
  void store(mlir::Value tensor, mlir::Value pointer, const Point &at,
             Element element);

  /// The coordinates of row `row`, a row-major index of the dimensions `dims`.
  /// The evaluator remembers that these coordinates belong to `row`, so that it
  /// need not compute the index from the coordinates again.
  Point splitRow(mlir::Value row, llvm::ArrayRef<int64_t> dims);

private:
  Element load(mlir::Value tensor, mlir::Value pointer, bool oneRow,
               const Point &at);
  Element gather(mlir::Type type, mlir::Value pointer, mlir::Value offsets);
  /// Where the elements of a vector's lanes are in a tensor, counted in
  /// elements: lane i is at `base` + i * `laneStride`, plus `scattered`[i]
  /// unless `scattered` is null.
  struct Offset {
    mlir::Value base;
    int64_t laneStride = 0;
    mlir::Value scattered;
  };
  Offset offsetOf(mlir::RankedTensorType type, const Point &at, bool oneRow);
  mlir::Value linearize(mlir::Value outer, int64_t size, mlir::Value inner);

  LoopBuilder &b;
  mlir::Value mask;
  /// Avoids recomputing row indices: maps a triple (outer, size, inner) to the
  /// known value of outer * size + inner. `splitRow` adds the entries.
  std::map<std::tuple<void *, int64_t, void *>, mlir::Value> linearized;
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_TENSOREVALUATOR_H
