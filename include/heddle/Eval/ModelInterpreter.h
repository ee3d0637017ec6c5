//===- ModelInterpreter.h - Executes functions and steps on tensors *- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_MODELINTERPRETER_H
#define HEDDLE_EVAL_MODELINTERPRETER_H

#include "heddle/Eval/Interpreter.h"
#include "heddle/Eval/KernelRunner.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace heddle::eval {

/// The interpreter of `nn.model`: every phase from import to kernels. A launch
/// executes the kernel's body, or, from the kernels phase on, its object.
class ModelInterpreter : public Interpreter {
public:
  static std::unique_ptr<ModelInterpreter>
  create(nn::ModelOp model, const InterpreterOptions &options);

  mlir::LogicalResult run(llvm::StringRef kind, const TensorMap &inputs,
                          TensorMap &outputs) override;
  Tensor state(const std::string &name) const override;
  void setState(const std::string &name, const Tensor &value) override;

private:
  using Tensors = llvm::SmallVector<Tensor>;
  using Environment = llvm::DenseMap<mlir::Value, Tensor>;

  ModelInterpreter(nn::ModelOp model, const InterpreterOptions &options);

  /// A step program, or before there are any, the function it is made from.
  struct Program {
    mlir::FunctionOpInterface function;
    llvm::SmallVector<std::string> inputs, outputs;
  };
  std::optional<Program> findProgram(llvm::StringRef kind);
  /// Runs one part of `parts`; adds what it gives to `outputs`.
  mlir::LogicalResult runPart(Program &program, const TensorMap &inputs,
                              int64_t part, int64_t parts, TensorMap &outputs);

  mlir::LogicalResult runBlock(mlir::Block &block, llvm::ArrayRef<Tensor> args,
                               Environment &values, Tensors &results);
  mlir::LogicalResult runOperation(mlir::Operation *op, Environment &values,
                                   Tensors &results);
  mlir::LogicalResult runCallee(mlir::Operation *callee,
                                llvm::ArrayRef<Tensor> args, Tensors &results);
  mlir::LogicalResult runLoop(nn::MicroBatchesOp loop, Environment &values);
  mlir::LogicalResult runLaunch(planir::LaunchOp launch,
                                llvm::ArrayRef<Tensor> args, Tensors &results);
  mlir::LogicalResult runCompiled(planir::KernelOp kernel,
                                  llvm::ArrayRef<Tensor> args,
                                  Tensors &results);
  mlir::LogicalResult runComputation(mlir::Operation *op,
                                     llvm::ArrayRef<Tensor> args,
                                     Tensors &results);
  void keep(const std::string &name, const Tensor &value);
  Tensor round(const Tensor &value, mlir::Type type) const;
  Tensor readState(llvm::StringRef name);
  void writeState(llvm::StringRef name, const Tensor &value);

  nn::ModelOp model;
  InterpreterOptions options;
  mlir::SymbolTable symbols;
  std::unique_ptr<KernelRunner> kernels;
  llvm::StringMap<Tensor> stateValues;
  TensorMap kept; ///< What nn.keep asked for in this run.
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_MODELINTERPRETER_H
