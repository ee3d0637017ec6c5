//===- ModelInterpreter.h - Executes functions and steps --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interprets `nn` and `dist` operations on tensors, for modules up to the
// `kernels` phase.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_EVAL_MODELINTERPRETER_H
#define HEDDLE_LIB_EVAL_MODELINTERPRETER_H

#include "KernelRunner.h"
#include "heddle/Eval/RankInterpreter.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace heddle::eval {

/// Interprets an `nn.model`, from the import to the phase `kernels`. A launch
/// interprets the body of the kernel. When the kernel is compiled, the launch
/// calls the compiled code instead.
class ModelInterpreter : public RankInterpreter {
public:
  /// `kernels` may be null if the model has no compiled kernels.
  ModelInterpreter(nn::ModelOp model, const Rank &rank,
                   const InterpreterOptions &options,
                   std::shared_ptr<KernelRunner> kernels);

  mlir::Operation *source() override { return model; }
  int64_t batchParts(const ProgramName &name, const TensorMap &inputs) override;
  mlir::LogicalResult run(const ProgramName &name, const TensorMap &inputs,
                          const BatchSlice &batch, TensorMap &outputs) override;
  std::optional<std::vector<std::string>>
  inputsOf(const ProgramName &name) override;
  mlir::DictionaryAttr portsOf(const ProgramName &name) override;
  Tensor stored(const std::string &name) const override;
  void store(const std::string &name, const Tensor &value) override;

private:
  using Tensors = llvm::SmallVector<Tensor>;
  using Environment = llvm::DenseMap<mlir::Value, Tensor>;

  /// A program that runs one step, for example of training. Before the phase
  /// `train` it is only the model's function, from which that phase builds the
  /// step.
  struct Program {
    mlir::FunctionOpInterface function;
    mlir::ArrayAttr inputs, outputs;
    mlir::DictionaryAttr ports; ///< How ports are split; null if none is.
  };
  std::optional<Program> findProgram(const ProgramName &name);

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

  void placeShards(nn::BucketOp bucket);
  Tensor readState(llvm::StringRef name, const Tensor *slot);
  void writeState(llvm::StringRef name, const Tensor &value,
                  const Tensor *slot);

  /// Executes an operation of the dist dialect.
  mlir::LogicalResult runCommunication(mlir::Operation *op,
                                       llvm::ArrayRef<Tensor> args,
                                       Tensors &results);
  mlir::LogicalResult runReshard(dist::ReshardOp reshard, const Tensor &input,
                                 Tensors &results);
  mlir::LogicalResult runCollective(mlir::Operation *op, const Tensor &input,
                                    Tensors &results);
  /// Starts a collective and waits for it.
  mlir::LogicalResult exchange(mlir::Operation *op, const Collective &what,
                               const Tensor &input, Tensors &results);
  mlir::LogicalResult runSlice(dist::SliceOp slice, const Tensor &input,
                               Tensors &results);
  std::optional<ElementKind> wireOf(mlir::Operation *op) const;

  nn::ModelOp model;
  mlir::SymbolTable symbols;
  std::shared_ptr<KernelRunner> kernels;
  llvm::StringMap<Tensor> stateValues; ///< The values of states and buckets.
  /// For each state in a bucket (a flat tensor of several states) that ranks
  /// split, the name of the bucket.
  llvm::StringMap<std::string> flats;
  /// For the result of each collective that was started and not yet waited
  /// for: the handle that Rank::wait takes.
  llvm::DenseMap<mlir::Value, int64_t> pending;
  /// For the result of each dist fetch or move that was started and not yet
  /// waited for: the value that the wait returns.
  llvm::DenseMap<mlir::Value, Tensor> fetched;
  TensorMap kept; ///< Values that nn.keep selected in this run.
};

} // namespace heddle::eval

#endif // HEDDLE_LIB_EVAL_MODELINTERPRETER_H
