//===- TensorEvaluator.h - Elements of tensor programs, on demand *- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_TENSOREVALUATOR_H
#define HEDDLE_LIB_CODEGEN_CPU_TENSOREVALUATOR_H

#include "LoopBuilder.h"
#include "heddle/Codegen/CPU/CpuTarget.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <map>

namespace heddle::cpu {

/// Where lanes stand along one dimension.
struct Coordinate {
  enum Kind {
    Uniform,     ///< All lanes at `value`, an i64.
    Consecutive, ///< Lane i at `value` + i.
    Scattered,   ///< `value` is a vector of i64.
  };
  mlir::Value value;
  Kind kind = Uniform;
};

/// One coordinate for each dimension of a tensor, or a single one that counts
/// elements when the evaluator is flat.
using Point = llvm::SmallVector<Coordinate, 4>;

/// A value of the program: one for all lanes, base + lane number, or a vector.
struct Element {
  enum Kind { Uniform, Consecutive, Vector };
  mlir::Value value;
  Kind kind = Uniform;
};

/// Computes elements of tensors that linalg operations define, by pulling the
/// elements that they depend on: what is fused never goes through memory.
/// Scalar bodies become vector code where a coordinate has lanes.
class TensorEvaluator {
public:
  TensorEvaluator(LoopBuilder &b, const CpuTarget &target)
      : b(b), lanes(target.lanes()), scopes(1) {}

  /// `tensor` stands in memory at `pointer`. With `oneRow` only its last
  /// dimension does: the row that is being worked on.
  void setMemory(mlir::Value tensor, mlir::Value pointer, bool oneRow = false);
  /// `scalar`, an index argument of the kernel, is `value`, an i64.
  void setScalar(mlir::Value scalar, mlir::Value value);
  /// What `setScalar` said.
  mlir::Value scalarOf(mlir::Value scalar) const {
    return scalars.lookup(scalar);
  }
  /// Points of every tensor are a single element number from here on.
  void setFlat() { flat = true; }
  /// Lanes that exist; null when all do.
  void setMask(mlir::Value newMask) { mask = newMask; }

  /// Values computed in a scope are forgotten at its end. Open one for each
  /// region of generated code.
  class Scope {
  public:
    explicit Scope(TensorEvaluator &evaluator) : evaluator(evaluator) {
      evaluator.scopes.emplace_back();
    }
    ~Scope() { evaluator.scopes.pop_back(); }

  private:
    TensorEvaluator &evaluator;
  };

  /// The element of `tensor` at `at`.
  Element evaluate(mlir::Value tensor, const Point &at);
  /// The same as a vector of all lanes.
  mlir::Value evaluateVector(mlir::Value tensor, const Point &at);
  /// Makes `element` the element of `tensor` at `at`, in the current scope.
  void define(mlir::Value tensor, const Point &at, Element element);
  /// Computes here whatever an evaluation of `tensor` at `at` needs that is
  /// the same for all lanes, so that a loop over lanes finds it done.
  void hoist(mlir::Value tensor, const Point &at);
  /// The same for one iteration of `op`, which may be a reduction.
  void hoistInputs(mlir::linalg::GenericOp op, const Point &iteration);
  /// Hoists only what does not depend on the point at all.
  void hoistConstants(mlir::Value tensor);

  /// Runs the body of a reduction for one element of every input: the new
  /// value of `accumulator`, scalar or vector as that is.
  mlir::Value accumulate(mlir::linalg::GenericOp reduction,
                         const Point &iteration, mlir::Value accumulator);

  /// Loads from `pointer`, laid out as `tensor` is.
  Element loadFrom(mlir::Value tensor, mlir::Value pointer, const Point &at) {
    return load(tensor, {pointer, false}, at);
  }
  /// Stores an element (uniform or vector) of `tensor`'s type at `pointer`.
  void store(mlir::Value tensor, mlir::Value pointer, const Point &at,
             Element element);

  /// A point of row coordinates that together count rows: remembers that the
  /// row number `row` is their row-major index, and splits it.
  Point splitRow(mlir::Value row, llvm::ArrayRef<int64_t> dims);

  mlir::Value toVector(Element element);
  mlir::VectorType vectorType(mlir::Type scalar) const {
    return mlir::VectorType::get({lanes}, scalar);
  }
  int64_t laneCount() const { return lanes; }
  /// True after something that cannot be made into code was asked for; the
  /// operation has been told.
  bool hasFailed() const { return failed; }

private:
  using Key = std::pair<void *, std::vector<std::pair<void *, int>>>;
  using Locals = llvm::DenseMap<mlir::Value, Element>;
  struct Memory {
    mlir::Value pointer;
    bool oneRow;
  };

  Element evaluateGeneric(mlir::linalg::GenericOp op, unsigned result,
                          const Point &at);
  Point iterationOf(mlir::linalg::GenericOp op, unsigned result,
                    const Point &at);
  Point operandPoint(mlir::AffineMap map, const Point &iteration);
  void bindInputs(mlir::linalg::GenericOp op, const Point &iteration,
                  Locals &locals);
  void runBody(mlir::linalg::GenericOp op, const Point &iteration,
               Locals &locals);
  Element runOp(mlir::Operation &op, const Point &iteration, Locals &locals);
  Element runElementwise(mlir::Operation &op, llvm::ArrayRef<Element> operands);
  void runMany(mlir::Operation &op, llvm::ArrayRef<mlir::Value> operands,
               Locals &locals);
  Element extract(mlir::tensor::ExtractOp op, Locals &locals);
  Element lookupScalar(mlir::Value value, Locals &locals);
  void hoistExtracts(mlir::linalg::GenericOp op);

  Element load(mlir::Value tensor, Memory memory, const Point &at);
  Element gather(mlir::Type type, mlir::Value pointer, mlir::Value offsets);
  /// Offset of lane 0, the distance of lanes, and extra offsets per lane.
  struct Offset {
    mlir::Value base;
    int64_t laneStride = 0;
    mlir::Value scattered;
  };
  Offset offsetOf(mlir::RankedTensorType type, const Point &at, bool oneRow);
  mlir::Value linearize(mlir::Value outer, int64_t size, mlir::Value inner);
  mlir::Value laneNumbers(mlir::Type scalar);
  mlir::Value broadcast(mlir::Value scalar);

  Element fail(mlir::Operation *op, mlir::Type type, llvm::StringRef message);
  static Key keyOf(mlir::Value tensor, const Point &at);
  const Element *find(const Key &key) const;

  LoopBuilder &b;
  int64_t lanes;
  bool flat = false;
  bool failed = false;
  mlir::Value mask;
  llvm::DenseMap<mlir::Value, Memory> memories;
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;
  std::vector<std::map<Key, Element>> scopes;
  /// (outer, size, inner) -> outer * size + inner, for known row numbers.
  std::map<std::tuple<void *, int64_t, void *>, mlir::Value> linearized;
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_TENSOREVALUATOR_H
