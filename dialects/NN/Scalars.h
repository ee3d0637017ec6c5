//===- Scalars.h - The scalar operations of nn.map --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scalar functions: the bodies of nn.map and nn.update. A table in Scalars.cpp
// has the cost, the value and the derivative of each scalar operation. A table
// in ScalarFunctions.cpp has the named functions, such as gelu.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_SCALARS_H
#define HEDDLE_DIALECTS_NN_SCALARS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Region.h"

namespace heddle::nn {

/// Builds scalar functions. Their values are real numbers with the type f64.
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

/// Creates an nn.map with one result, which has the type `type`, or by default
/// that of the first operand. `function` computes an element of it from one
/// element of each operand.
mlir::Value
buildMap(mlir::OpBuilder &builder, mlir::Location loc,
         mlir::ValueRange operands,
         llvm::function_ref<mlir::Value(Scalars &, mlir::ValueRange)> function,
         mlir::Type type = {});

/// The argument of `ScalarOp::derivative`: a scalar operation, the gradient of
/// its result, and the builder `s` with which the derivative is built.
struct ScalarAdjoint {
  Scalars &s;
  mlir::Operation *op;
  mlir::Value grad;

  mlir::Value operand(unsigned number) const { return op->getOperand(number); }
  mlir::Value result() const { return op->getResult(0); }
};

/// A row of the table of scalar operations.
struct ScalarOp {
  llvm::StringRef name;
  double flops; ///< Floating-point operations of its code, roughly.
  /// Evaluates the operation; a condition is 1 or 0.
  double (*evaluate)(mlir::Operation *op, llvm::ArrayRef<double> operands);
  /// Builds the gradient of operand number `operand`; null for operations whose
  /// result is a condition.
  mlir::Value (*derivative)(const ScalarAdjoint &at, unsigned operand);
};

/// The row for `op` in the table of scalar operations; null if the body of an
/// nn.map or nn.update must not contain it.
const ScalarOp *findScalarOp(mlir::Operation *op);

/// The floating-point operations of one evaluation of a function.
double flopsOf(mlir::Block &function);

/// Verifies that `body` is a scalar function of `arguments` arguments with
/// `results` results.
mlir::LogicalResult verifyScalarBody(mlir::Operation *op, mlir::Block &body,
                                     size_t arguments, size_t results);

/// Builds the derivative of `function` in reverse mode, as a function in
/// `gradient`. Its arguments are the gradients of the results for which
/// `seeded` is true, followed by those arguments of `function` that it reads.
/// Its results are the gradients of the arguments for which `wanted` is true.
/// Returns the indices of the arguments of `function` that the derivative
/// reads.
llvm::SmallVector<unsigned> buildScalarGradient(mlir::Block &function,
                                                llvm::ArrayRef<bool> seeded,
                                                llvm::ArrayRef<bool> wanted,
                                                mlir::Region &gradient);

/// Whether two functions return structurally equal expressions of their
/// arguments.
bool areEqualFunctions(mlir::Block &a, mlir::Block &b);

/// Builds the body of the named function `name`, such as `gelu`. A name with
/// the suffix `_grad`, such as `gelu_grad`, is the derivative of the function
/// with respect to all of its arguments. Fails if there is no such function.
mlir::LogicalResult buildFunction(llvm::StringRef name, mlir::Location loc,
                                  mlir::Region &body);

/// Whether there is a named function `name`.
bool isFunctionName(llvm::StringRef name);

/// The names of all named functions as a list for messages: `gelu, gelu_tanh,
/// ...`.
std::string functionNames();

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_SCALARS_H
