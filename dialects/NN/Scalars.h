//===- Scalars.h - The scalar operations of nn.map --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One table says of each scalar operation what it costs, what it gives and what
// its derivative is (Scalars.cpp); another gives names to functions made of
// them (ScalarFunctions.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_SCALARS_H
#define HEDDLE_DIALECTS_NN_SCALARS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Region.h"

namespace heddle::nn {

/// Builds scalar functions. Their values are real numbers, written as f64.
class Scalars : public mlir::ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  mlir::Value real(double value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value negative(mlir::Value a);
  /// Whether a > b, an i1.
  mlir::Value isGreater(mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
};

/// One operation in the body of a gradient, and the gradient of its result.
struct ScalarAdjoint {
  Scalars &s;
  mlir::Operation *op;
  mlir::Value grad;

  mlir::Value operand(unsigned number) const { return op->getOperand(number); }
  mlir::Value result() const { return op->getResult(0); }
};

/// What is known of a scalar operation.
struct ScalarOp {
  llvm::StringRef name;
  double flops; ///< Of the code that computes it, roughly.
  /// The result; a condition is 1 or 0.
  double (*evaluate)(mlir::Operation *op, llvm::ArrayRef<double> operands);
  /// The gradient of an operand; null where it is a condition.
  mlir::Value (*derivative)(const ScalarAdjoint &at, unsigned operand);
};

/// The row of the table; null where the operation is not known.
const ScalarOp *findScalarOp(mlir::Operation *op);

/// Arithmetic of one element.
double flopsOf(mlir::Block &function);

/// Checks the body of an operation that computes so many results of so many
/// arguments, element by element.
mlir::LogicalResult verifyScalarBody(mlir::Operation *op, mlir::Block &body,
                                     size_t arguments, size_t results);

/// Builds in `gradient` the derivative of a scalar function. Its arguments are
/// the gradients of the results that are `seeded`, then the arguments of
/// `function` that it reads, whose numbers are returned. It returns the
/// gradients of the `wanted` arguments.
llvm::SmallVector<unsigned> buildScalarGradient(mlir::Block &function,
                                                llvm::ArrayRef<bool> seeded,
                                                llvm::ArrayRef<bool> wanted,
                                                mlir::Region &gradient);

/// Whether two functions return the same expressions of their arguments.
bool areEqualFunctions(mlir::Block &a, mlir::Block &b);

/// Builds the body of the function of that name: one of the table, or with
/// `_grad` behind it the derivative of one by all of its arguments. Fails where
/// there is none.
mlir::LogicalResult buildFunction(llvm::StringRef name, mlir::Location loc,
                                  mlir::Region &body);

/// Whether there is a function of that name.
bool isFunctionName(llvm::StringRef name);

/// The names of the table, as `gelu, gelu_tanh, ...`.
std::string functionNames();

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_SCALARS_H
