//===- ElementEvaluator.h - Elements of tensor programs, on demand *- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// Where lanes stand along one dimension.
struct Coordinate {
  enum Kind {
    Uniform,     ///< All lanes at `value`.
    Consecutive, ///< Lane i at `value` + i.
    Scattered,   ///< `value` is a vector.
  };
  mlir::Value value;
  Kind kind = Uniform;
};

/// One coordinate for each dimension of a tensor, or a single one that counts
/// elements when the evaluator is flat.
using Point = llvm::SmallVector<Coordinate, 4>;

/// Whether lanes stand at different places.
bool hasLanes(const Point &at);

/// A value of the program: one for all lanes, base + lane number, or a vector.
struct Element {
  enum Kind { Uniform, Consecutive, Vector };
  mlir::Value value;
  Kind kind = Uniform;
};

/// Computes elements of tensors that linalg operations define, by pulling the
/// elements that they depend on: what is fused never goes through memory.
/// Scalar bodies become vector code where a coordinate has lanes, and stay
/// scalar code where none has. Memory is the target's: it binds a reader to
/// every tensor that is stored.
class ElementEvaluator {
public:
  /// Emits the element at a point; a null value says that it is not there.
  using Reader = std::function<Element(const Point &)>;

  /// Code is made at the insertion point of `builder`. Coordinates have type
  /// `coordinateType`: index, or an integer.
  ElementEvaluator(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::Type coordinateType, int64_t lanes)
      : builder(builder), loc(loc), coordinateType(coordinateType),
        lanes(lanes), scopes(1) {}

  /// Elements of `tensor` come from `reader`.
  void bind(mlir::Value tensor, Reader reader) {
    readers[tensor] = std::move(reader);
  }
  /// Elements of `tensor` are computed again.
  void unbind(mlir::Value tensor) { readers.erase(tensor); }
  /// The kernel's scalar `scalar` is `value`: of the same type, or a coordinate
  /// for an index.
  void setScalar(mlir::Value scalar, mlir::Value value) {
    scalars[scalar] = value;
  }
  /// What `setScalar` said.
  mlir::Value scalarOf(mlir::Value scalar) const {
    return scalars.lookup(scalar);
  }
  /// Emits an operation on scalars and remembers what it gives.
  void emitScalar(mlir::Operation &op);

  /// Points of every tensor are a single element number from here on.
  void setFlat() { flat = true; }
  bool isFlat() const { return flat; }
  /// How many lanes there are. What was computed with other lanes must not be
  /// in a scope any more.
  void setLanes(int64_t count) { lanes = count; }
  int64_t laneCount() const { return lanes; }
  /// Of the operation whose code is made, or the one that was given.
  mlir::Location location() const { return loc; }
  mlir::VectorType vectorType(mlir::Type scalar) const {
    return mlir::VectorType::get({lanes}, scalar);
  }

  /// Values computed in a scope are forgotten at its end. Open one for each
  /// region of generated code.
  class Scope {
  public:
    explicit Scope(ElementEvaluator &evaluator) : evaluator(evaluator) {
      evaluator.scopes.emplace_back();
    }
    ~Scope() { evaluator.scopes.pop_back(); }

  private:
    ElementEvaluator &evaluator;
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

  /// Runs the body of `op` for one iteration; `outputs` are the values of its
  /// outputs before, as far as the body asks for them. What it yields.
  llvm::SmallVector<Element> run(mlir::linalg::GenericOp op,
                                 const Point &iteration,
                                 llvm::ArrayRef<Element> outputs = {});
  /// Runs the body of a reduction for one element of every input: the new
  /// value of `accumulator`, scalar or vector as that is.
  mlir::Value accumulate(mlir::linalg::GenericOp reduction,
                         const Point &iteration, mlir::Value accumulator);

  /// What one iteration of a reduction combines its accumulator with, where the
  /// last operation of its body does nothing else.
  Element term(mlir::linalg::GenericOp reduction, const Point &iteration);

  mlir::Value toVector(Element element);
  /// 0, 1, 2, ... of a scalar type.
  mlir::Value laneNumbers(mlir::Type scalar);

  /// The first thing asked for that cannot be made into code.
  struct Failure {
    mlir::Operation *op; ///< Of the kernel.
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

  /// `value`, a scalar or a vector, in another integer type or index.
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

/// Every linalg.generic that `values` depend on, operands first.
llvm::SetVector<mlir::Operation *> producingGenerics(mlir::ValueRange values);

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_ELEMENTEVALUATOR_H
