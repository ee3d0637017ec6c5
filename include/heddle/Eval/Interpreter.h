//===- Interpreter.h - Executes a module of any phase -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Executes a module after any phase, with all of its ranks in this process.
// Used by `heddle eval` and by tests.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_INTERPRETER_H
#define HEDDLE_EVAL_INTERPRETER_H

#include "heddle/Eval/Files.h"
#include "heddle/Eval/RankInterpreter.h"
#include "heddle/PlanFormat/UpdateCounts.h"
#include "mlir/IR/BuiltinOps.h"
#include <memory>
#include <set>

namespace heddle::eval {

/// Executes the programs of a module on all of its ranks, in this process.
/// Inputs, outputs and states are whole tensors. States persist from run to
/// run.
class Interpreter {
public:
  /// The mesh of the ranks that the interpreter simulates for a module. Before
  /// the phase `pipe` it is a single rank. After `pipe`, while the types are
  /// still of whole tensors, it is one rank for each pipeline stage. From the
  /// phase `spmd` on it is the whole mesh.
  static plan::Mesh meshOf(mlir::ModuleOp module);
  /// Creates an interpreter for the model or plan of a module, or for the
  /// models or plans of all pipeline stages. Reports an error and returns null
  /// if the module has neither.
  static std::unique_ptr<Interpreter> create(mlir::ModuleOp module,
                                             const InterpreterOptions &options);

  /// Runs a program once. `inputs` and `outputs` have tensors by the names of
  /// the program's inputs and outputs. An input may have another shape than the
  /// program says if the number of elements is equal.
  ///
  /// If the program takes only a part of the batch that `inputs` holds, it runs
  /// once for each part. The loss is then the mean of the parts' losses.
  ///
  /// Scalar outputs must be equal on all ranks. An output that is split over
  /// ranks is joined. For any other output, the value of the first rank is
  /// returned.
  mlir::LogicalResult run(const ProgramName &name, const TensorMap &inputs,
                          TensorMap &outputs);

  /// The names of all inputs that a program has on any rank. Returns nullopt if
  /// the program does not exist on one of the ranks.
  std::optional<std::set<std::string>> inputsOf(const ProgramName &name) const;

  /// The states of all ranks. A state that several ranks have is listed once.
  const std::vector<StateInfo> &states() const { return stateInfos; }
  /// The whole value of a state; `name` must be in `states()`.
  Tensor state(const std::string &name) const;
  void setState(const std::string &name, const Tensor &value);

  /// Initializes every state. Parameters are read from `weightsDirectory`. If
  /// `weightsDirectory` is empty, the module says where they come from: a
  /// directory of weights, or random values. `seed` is the seed of random
  /// values (nullopt: the module's seed). Copies of parameters in compute
  /// precision are computed from the parameters.
  bool initialize(const std::string &weightsDirectory,
                  std::optional<uint64_t> seed, Diagnostic &error);
  const dist::Strategy &strategy() const { return chosen; }
  /// The program of the kind or name `name` that runs in step `step`, counted
  /// from 1. If several programs train, the name "train" means the one whose
  /// phase the step belongs to. `counts` has the updates of the steps before.
  ProgramName programAt(const ProgramName &name, int64_t step,
                        const plan::UpdateCounts &counts) const;
  /// How many updates the steps have made that were run; nullopt if the program
  /// has no state that counts them.
  std::optional<int64_t> updates() const;

  /// The conditions of all ranks' programs. An input of `run` with the name of
  /// a condition says whether it holds: 0 means that it does not.
  std::vector<plan::Condition> conditions() const;

private:
  explicit Interpreter(const plan::Mesh &mesh) : world(mesh) {}
  bool addRank(std::unique_ptr<RankInterpreter> rank);
  bool loadParameters(const std::string &directory, Diagnostic &error);
  /// Sets a state from the values of a whole weight. The state is the weight
  /// itself, or is derived from the weight. If the state is quantized, `codes`
  /// has the scales and zero points that weight files give. If `codes` is
  /// empty, they are computed from the values.
  void setWeight(const StateInfo &info, const Tensor &value,
                 rt::GroupScales codes = {});
  /// The copy of `weight` that training quantizes, with the bits and the ratio
  /// that the states have.
  Tensor quantized(const StateInfo &info, Tensor weight) const;
  mlir::LogicalResult join(const ProgramName &program,
                           llvm::ArrayRef<TensorMap> given, TensorMap &outputs);
  const StateInfo &infoOf(const std::string &name) const;

  /// For each state by name, the elements that one rank stores, as ranges in
  /// the whole (unsharded) tensor.
  using StoredRanges = std::map<std::string, std::vector<rt::ElementRange>>;

  World world;
  std::vector<std::unique_ptr<RankInterpreter>> ranks;
  std::vector<StoredRanges> storedRanges; ///< Indexed by rank.
  std::vector<StateInfo> stateInfos;
  dist::Strategy chosen;
  mlir::DictionaryAttr weights;
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_INTERPRETER_H
