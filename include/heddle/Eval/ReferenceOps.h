//===- ReferenceOps.h - Evaluations of nn operations ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The header that all files in lib/Eval that evaluate `nn` operations include.
// An evaluation is a function
//   LogicalResult evaluate(nn::XOp op, const Inputs &in, Outputs &out);
// that reads operands as `in[op.getInput()]` and fills results, which are zeros
// at first, as `out[op.getOutput()]`. It computes in double precision. The
// caller rounds to the element type.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_REFERENCEOPS_H
#define HEDDLE_EVAL_REFERENCEOPS_H

#include "dialects/NN/NNDialect.h"
#include "heddle/Eval/Tensor.h"
#include <optional>

namespace heddle::eval {

/// The tensors of an operation's operands, looked up by mlir::Value.
class Inputs {
public:
  Inputs(mlir::Operation *op, llvm::ArrayRef<Tensor> operands)
      : op(op), operands(operands) {}
  const Tensor &operator[](mlir::Value value) const { return *find(value); }
  /// The operand's tensor; null if the optional operand is absent.
  const Tensor *find(mlir::Value value) const {
    if (!value)
      return nullptr;
    for (auto [index, operand] : llvm::enumerate(op->getOperands()))
      if (operand == value)
        return &operands[index];
    llvm_unreachable("not an operand of this operation");
  }
  /// The elements of a float operand.
  const double *floats(mlir::Value value) const {
    return (*this)[value].floats().data();
  }
  /// Like `floats`, but null if the optional operand is absent.
  const double *findFloats(mlir::Value value) const {
    const Tensor *tensor = find(value);
    return tensor ? tensor->floats().data() : nullptr;
  }
  /// The elements of an integer operand.
  llvm::ArrayRef<int64_t> ints(mlir::Value value) const {
    return (*this)[value].ints();
  }
  /// The value of an operand of rank 0 or index type.
  int64_t integer(mlir::Value value) const { return ints(value).front(); }
  /// Like `integer`, but `missing` if the optional operand is absent.
  int64_t integerOr(mlir::Value value, int64_t missing) const {
    return value ? integer(value) : missing;
  }
  double number(mlir::Value value) const { return *floats(value); }

private:
  mlir::Operation *op;
  llvm::ArrayRef<Tensor> operands;
};

/// The tensors of an operation's results, looked up by mlir::Value. Their
/// elements are zeros at first.
class Outputs {
public:
  Outputs(mlir::Operation *op, llvm::SmallVectorImpl<Tensor> &results)
      : results(results) {
    results.clear();
    for (mlir::Type type : op->getResultTypes())
      results.emplace_back(type);
  }
  Tensor &operator[](mlir::Value result) const {
    return results[llvm::cast<mlir::OpResult>(result).getResultNumber()];
  }
  double *floats(mlir::Value result) const {
    return (*this)[result].mutableFloats().data();
  }

private:
  llvm::SmallVectorImpl<Tensor> &results;
};

/// The external model that evaluates `OpT` by calling `function`.
template <typename OpT,
          mlir::LogicalResult (*function)(OpT, const Inputs &, Outputs &)>
struct ReferenceEvalModel : nn::ReferenceEvalOpInterface::ExternalModel<
                                ReferenceEvalModel<OpT, function>, OpT> {
  mlir::LogicalResult evaluate(mlir::Operation *op,
                               llvm::ArrayRef<Tensor> operands,
                               llvm::SmallVectorImpl<Tensor> &results) const {
    Inputs in(op, operands);
    Outputs out(op, results);
    return function(llvm::cast<OpT>(op), in, out);
  }
};

/// Attaches the evaluation `function` to its operation.
template <typename OpT,
          mlir::LogicalResult (*function)(OpT, const Inputs &, Outputs &)>
void attachEvaluation(mlir::MLIRContext &context) {
  OpT::template attachInterface<ReferenceEvalModel<OpT, function>>(context);
}

/// The position of a local tensor in the tensor of the global batch. The local
/// tensor is what a rank applies a dropout to in one micro-batch. The random
/// numbers depend on the position, so that all ranks and micro-batches together
/// drop the same elements as a single rank would. By default the local tensor
/// is the whole tensor of the global batch.
struct DropoutPosition {
  int64_t microBatch = 0;
  int64_t count = 0; ///< The number of elements of the local tensor.
  /// A dimension that ranks split into `parts` parts. The local tensor has the
  /// part with index `part`. For each index of the dimensions before this one,
  /// the part is `inner` consecutive elements of the local tensor, in row-major
  /// order.
  struct Split {
    int64_t part = 0, parts = 1, inner = 1;
  };
  /// The dimensions that are split, outermost first.
  llvm::SmallVector<Split> splits;

  uint64_t elementAt(uint64_t index) const;
};

/// The elements that a dropout keeps. NN_DropoutOp documents the random
/// numbers.
class DropoutMask {
public:
  /// `rng` has four numbers: the seed (low and high word), the step, and 0.
  /// `site` and `layer` distinguish the dropouts of a model. `p` is the
  /// probability that an element is dropped.
  DropoutMask(llvm::ArrayRef<int64_t> rng, uint32_t site, int64_t layer,
              const DropoutPosition &position, double p);
  /// The factor by which the dropout multiplies an element: 0, or 1 / (1 - p).
  double factor(uint64_t element) const;

private:
  uint64_t key;
  uint32_t step, stream, threshold;
  DropoutPosition position;
  double keepFactor;
};

/// Each of these functions attaches the evaluations in one file of lib/Eval.
/// `attachElementwiseEvaluations` attaches those in Elementwise.cpp.
void attachElementwiseEvaluations(mlir::MLIRContext &context);
void attachLinearEvaluations(mlir::MLIRContext &context);
void attachNormEvaluations(mlir::MLIRContext &context);
void attachAttentionEvaluations(mlir::MLIRContext &context);
void attachCacheEvaluations(mlir::MLIRContext &context);
void attachLossEvaluations(mlir::MLIRContext &context);
void attachOptimizerEvaluations(mlir::MLIRContext &context);
void attachSignEvaluations(mlir::MLIRContext &context);
void attachGroupEvaluations(mlir::MLIRContext &context);

} // namespace heddle::eval

#endif // HEDDLE_EVAL_REFERENCEOPS_H
