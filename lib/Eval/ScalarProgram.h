//===- ScalarProgram.h - Bodies of nn.map and nn.update ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates scalar functions, the bodies of nn.map and nn.update, without
// walking the IR for each element.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EVAL_SCALARPROGRAM_H
#define HEDDLE_LIB_EVAL_SCALARPROGRAM_H

#include "dialects/NN/Scalars.h"
#include "llvm/ADT/DenseMap.h"

namespace heddle::eval {

/// A scalar function as a list of instructions. Its values are numbered in
/// order, and the first numbers are the arguments.
class ScalarProgram {
public:
  explicit ScalarProgram(mlir::Block &body)
      : numArguments(body.getNumArguments()) {
    llvm::DenseMap<mlir::Value, unsigned> numbers;
    auto numbersOf = [&](mlir::ValueRange values) {
      return llvm::map_to_vector(
          values, [&](mlir::Value value) { return numbers.lookup(value); });
    };
    for (mlir::BlockArgument argument : body.getArguments())
      numbers[argument] = argument.getArgNumber();
    for (mlir::Operation &op : body.without_terminator()) {
      instructions.push_back(
          {nn::findScalarOp(&op), &op, numbersOf(op.getOperands())});
      numbers[op.getResult(0)] = numArguments + instructions.size() - 1;
    }
    results = numbersOf(body.getTerminator()->getOperands());
  }

  /// Runs the function on the arguments `values` and returns its results.
  llvm::SmallVector<double> run(llvm::SmallVector<double> values) const {
    llvm::SmallVector<double> operands;
    for (const Instruction &instruction : instructions) {
      operands.clear();
      for (unsigned number : instruction.operands)
        operands.push_back(values[number]);
      values.push_back(instruction.scalar->evaluate(instruction.op, operands));
    }
    return llvm::map_to_vector(results,
                               [&](unsigned number) { return values[number]; });
  }

private:
  struct Instruction {
    const nn::ScalarOp *scalar;
    mlir::Operation *op;
    llvm::SmallVector<unsigned> operands;
  };
  size_t numArguments;
  llvm::SmallVector<Instruction> instructions;
  llvm::SmallVector<unsigned> results;
};

} // namespace heddle::eval

#endif // HEDDLE_LIB_EVAL_SCALARPROGRAM_H
