//===- OpCases.h - An instance of every nn computation ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_EVAL_OPCASES_H
#define HEDDLE_TEST_UNIT_EVAL_OPCASES_H

#include "dialects/NN/NNDialect.h"
#include "heddle/Eval/Interpreter.h"
#include "mlir/IR/OwningOpRef.h"
#include "gtest/gtest.h"
#include <string>
#include <vector>

namespace heddle::test {

/// One operation with its operands, as text.
struct OpCase {
  std::string operation; ///< As `nn.linear`.
  std::string arguments; ///< Of a function: `%x: tensor<2x3xf32>, ...`.
  std::string body;      ///< The operation.
  int64_t limit = 5;     ///< Integer operands are below it.
};

/// At least one case of every nn computation.
const std::vector<OpCase> &opCases();

/// The name of a test over a case.
std::string caseName(const ::testing::TestParamInfo<OpCase> &info);

/// A context with the nn dialect, its evaluations and its lowerings.
mlir::MLIRContext &testContext();

/// A case as a module: its operation, in a function that is the program "train"
/// and returns the operation's results as r0, r1, ...
struct CaseModule {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  nn::FuncOp function;
  mlir::Operation *operation = nullptr;
};
CaseModule parseCase(const OpCase &opCase);

/// The port of that name, which is of no role of its own.
nn::PortAttr valuePort(mlir::MLIRContext *context, const llvm::Twine &name);

/// Makes the function return `values` in place of what it returned.
void returnValues(nn::FuncOp function, mlir::ValueRange values);

/// Numbers in (-1, 1) for floats, below the case's limit for integers, the same
/// in every run.
eval::TensorMap inputsOf(nn::FuncOp function, int64_t limit);

/// Runs the program "train" of a module without rounding.
eval::TensorMap runModule(mlir::ModuleOp module, const eval::TensorMap &inputs);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_EVAL_OPCASES_H
