//===- TensorEvaluator.h - Elements of tensors behind pointers --*- C++ -*-===//
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

/// The evaluator of elements over raw memory: coordinates are i64, lanes are
/// those of the target's vectors, and a mask says which of them exist.
class TensorEvaluator : public codegen::ElementEvaluator {
public:
  TensorEvaluator(LoopBuilder &b, const CpuTarget &target)
      : ElementEvaluator(b.builder, b.loc, b.builder.getI64Type(),
                         target.lanes()),
        b(b) {}

  /// `tensor` stands in memory at `pointer`. With `oneRow` only its last
  /// dimension does: the row that is being worked on.
  void setMemory(mlir::Value tensor, mlir::Value pointer, bool oneRow = false);
  /// Lanes that exist; null when all do.
  void setMask(mlir::Value newMask) { mask = newMask; }

  /// Loads from `pointer`, laid out as `tensor` is.
  Element loadFrom(mlir::Value tensor, mlir::Value pointer, const Point &at) {
    return load(tensor, pointer, /*oneRow=*/false, at);
  }
  /// Stores an element (uniform or vector) of `tensor`'s type at `pointer`.
  void store(mlir::Value tensor, mlir::Value pointer, const Point &at,
             Element element);

  /// A point of row coordinates that together count rows: remembers that the
  /// row number `row` is their row-major index, and splits it.
  Point splitRow(mlir::Value row, llvm::ArrayRef<int64_t> dims);

private:
  Element load(mlir::Value tensor, mlir::Value pointer, bool oneRow,
               const Point &at);
  Element gather(mlir::Type type, mlir::Value pointer, mlir::Value offsets);
  /// Offset of lane 0, the distance of lanes, and extra offsets per lane.
  struct Offset {
    mlir::Value base;
    int64_t laneStride = 0;
    mlir::Value scattered;
  };
  Offset offsetOf(mlir::RankedTensorType type, const Point &at, bool oneRow);
  mlir::Value linearize(mlir::Value outer, int64_t size, mlir::Value inner);

  LoopBuilder &b;
  mlir::Value mask;
  /// (outer, size, inner) -> outer * size + inner, for known row numbers.
  std::map<std::tuple<void *, int64_t, void *>, mlir::Value> linearized;
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_TENSOREVALUATOR_H
