//===- ElementEvaluator.h - Elements of tensor programs, on -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits code for fused element-wise operations. It is the common part of
// TensorEvaluator for kernels on x86-64 and of ElementEmitter for GPUs.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_ELEMENTEVALUATOR_H
#define HEDDLE_CODEGEN_COMMON_ELEMENTEVALUATOR_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include <functional>
#include <map>
#include <optional>

namespace heddle::codegen {

/// The indices of all lanes of a vector along one dimension of a tensor.
struct Coordinate {
  enum Kind {
    Uniform,     ///< All lanes have the index `value`.
    Consecutive, ///< Lane i has the index `value` + i.
    Scattered,   ///< `value` is a vector with the index of each lane.
  };
  mlir::Value value;
  Kind kind = Uniform;
};

/// One coordinate for each dimension of a tensor. If the evaluator is flat,
/// there is only one coordinate: the row-major index of an element.
using Point = llvm::SmallVector<Coordinate, 4>;

/// Whether lanes differ in some coordinate of `at`.
bool hasLanes(const Point &at);

/// An element for all lanes of a vector. Uniform: all lanes have the scalar
/// `value`. Consecutive: lane i has the scalar `value` + i. Vector: `value` is
/// a vector with one element for each lane.
struct Element {
  enum Kind { Uniform, Consecutive, Vector };
  mlir::Value value;
  Kind kind = Uniform;
};

/// Emits code that computes elements of tensors defined by linalg operations.
/// The evaluator recursively emits the elements that an element depends on, so
/// that fused operations do not store intermediate tensors. Bodies of linalg
/// operations become vector code if a coordinate differs between lanes,
/// otherwise scalar code. The target binds a reader to every tensor that is in
/// memory.
class ElementEvaluator {
public:
  /// A function that emits the element of a tensor at a point, usually by a
  /// load. If it returns a null value, the evaluator computes the element from
  /// the operation that defines the tensor.
  using Reader = std::function<Element(const Point &)>;

  /// Emits code at the insertion point of `builder`, for vectors of `lanes`
  /// lanes. Coordinates have type `coordinateType`: index, or an integer.
  ElementEvaluator(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::Type coordinateType, int64_t lanes)
      : builder(builder), loc(loc), coordinateType(coordinateType),
        lanes(lanes), scopes(1) {}

  /// Reads elements of `tensor` with `reader` from now on.
  void bind(mlir::Value tensor, Reader reader) {
    readers[tensor] = std::move(reader);
  }
  /// Undoes `bind`: elements of `tensor` are computed from the operation that
  /// defines it.
  void unbind(mlir::Value tensor) { readers.erase(tensor); }
  /// Sets the value of the kernel's scalar argument `scalar`. `value` has the
  /// same type, or the type of coordinates if `scalar` is an index.
  void setScalar(mlir::Value scalar, mlir::Value value) {
    scalars[scalar] = value;
  }
  /// The value that `setScalar` set; null if none.
  mlir::Value scalarOf(mlir::Value scalar) const {
    return scalars.lookup(scalar);
  }
  /// Emits an operation on scalars, such as index arithmetic, and records the
  /// values of its results for `scalarOf`.
  void emitScalar(mlir::Operation &op);

  /// Makes the evaluator flat: points have a single coordinate from now on, the
  /// row-major index of an element.
  void setFlat() { flat = true; }
  bool isFlat() const { return flat; }
  /// Sets the number of lanes. No open scope may hold values that were computed
  /// with another number.
  void setLanes(int64_t count) { lanes = count; }
  int64_t laneCount() const { return lanes; }
  /// The location of the operation that is being emitted, or the location that
  /// was passed to the constructor.
  mlir::Location location() const { return loc; }
  mlir::VectorType vectorType(mlir::Type scalar) const {
    return mlir::VectorType::get({lanes}, scalar);
  }

  /// Caches computed values until the scope ends. Open a scope for each region
  /// of generated code, because a value must not be used outside of its region.
  class Scope {
  public:
    explicit Scope(ElementEvaluator &evaluator) : evaluator(evaluator) {
      evaluator.scopes.emplace_back();
    }
    ~Scope() { evaluator.scopes.pop_back(); }

  private:
    ElementEvaluator &evaluator;
  };

  /// Emits the element of `tensor` at `at`.
  Element evaluate(mlir::Value tensor, const Point &at);
  /// Emits a vector with the elements of `tensor` at `at`, one for each lane.
  /// If all lanes have the same element, it is broadcast.
  mlir::Value evaluateVector(mlir::Value tensor, const Point &at);
  /// Records until the current scope ends that the element of `tensor` at `at`
  /// is `element`, so that `evaluate` returns it.
  void define(mlir::Value tensor, const Point &at, Element element);
  /// Emits at the current insertion point those values that an evaluation of
  /// `tensor` at `at` needs and that are the same for all lanes. Callers do
  /// this before a loop over columns, so that the loop does not recompute these
  /// values.
  void hoist(mlir::Value tensor, const Point &at);
  /// Emits at the current insertion point those values that the inputs of one
  /// iteration of `op` need and that are the same for all lanes (see `hoist`).
  /// `op` may be a reduction.
  void hoistInputs(mlir::linalg::GenericOp op, const Point &iteration);
  /// Emits at the current insertion point those values that an evaluation of
  /// `tensor` needs at every point.
  void hoistConstants(mlir::Value tensor);

  /// Emits the body of `op` for one iteration and returns the values that it
  /// yields. `outputs` are the current values of its outputs, needed if the
  /// body reads them.
  llvm::SmallVector<Element> run(mlir::linalg::GenericOp op,
                                 const Point &iteration,
                                 llvm::ArrayRef<Element> outputs = {});
  /// Emits the body of a reduction for one element of every input. Returns the
  /// new value of `accumulator`, with the same type: a scalar or a vector.
  mlir::Value accumulate(mlir::linalg::GenericOp reduction,
                         const Point &iteration, mlir::Value accumulator);

  /// Emits the term of one iteration of a reduction: the value that the body
  /// combines with the accumulator. The last operation of the body must be this
  /// combination.
  Element term(mlir::linalg::GenericOp reduction, const Point &iteration);

  mlir::Value toVector(Element element);
  /// The vector 0, 1, 2, ... with elements of type `scalar`.
  mlir::Value laneNumbers(mlir::Type scalar);

  /// The first operation that could not be emitted, and why.
  struct Failure {
    mlir::Operation *op; ///< An operation of the kernel.
    std::string reason;
  };
  const std::optional<Failure> &failure() const { return failed; }

protected:
  template <typename Op, typename... Args> mlir::Value create(Args &&...args) {
    return builder.create<Op>(loc, std::forward<Args>(args)...);
  }
  mlir::Value broadcast(mlir::Value scalar);

private:
  using Key = std::pair<void *, std::vector<std::pair<void *, int>>>;
  using Locals = llvm::DenseMap<mlir::Value, Element>;

  Element compute(mlir::Value tensor, const Point &at);
  Element evaluateGeneric(mlir::linalg::GenericOp op, unsigned result,
                          const Point &at);
  Point iterationOf(mlir::linalg::GenericOp op, unsigned result,
                    const Point &at);
  Point operandPoint(mlir::AffineMap map, const Point &iteration);
  Element operandOf(mlir::linalg::GenericOp op, mlir::OpOperand &operand,
                    const Point &iteration);
  void bindInputs(mlir::linalg::GenericOp op, const Point &iteration,
                  Locals &locals);
  void runOp(mlir::Operation &op, const Point &iteration, Locals &locals);
  void runElementwise(mlir::Operation &op, Locals &locals);
  Element position(mlir::linalg::IndexOp op, const Point &iteration);
  Element extract(mlir::tensor::ExtractOp op, Locals &locals);
  Element lookupScalar(mlir::Value value, const Locals &locals);
  void hoistExtracts(mlir::linalg::GenericOp op);

  /// Converts `value`, an integer scalar or vector, to the element type
  /// `scalar`, an integer type or index.
  mlir::Value castTo(mlir::Type scalar, mlir::Value value);
  Element fail(mlir::Operation *op, mlir::Type type, const llvm::Twine &reason);
  static Key keyOf(mlir::Value tensor, const Point &at);
  const Element *find(const Key &key) const;

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::Type coordinateType;
  int64_t lanes;
  bool flat = false;
  std::optional<Failure> failed;
  llvm::DenseMap<mlir::Value, Reader> readers;
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;
  std::vector<std::map<Key, Element>> scopes;
};

/// The linalg.generic operations on which `values` depend. Operations that
/// produce an operand come before those that read it.
llvm::SetVector<mlir::Operation *> producingGenerics(mlir::ValueRange values);

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_ELEMENTEVALUATOR_H
