//===- Interpreter.h - Executes a module of any phase -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_INTERPRETER_H
#define HEDDLE_EVAL_INTERPRETER_H

#include "heddle/Eval/Files.h"
#include "heddle/Eval/RankInterpreter.h"
#include "mlir/IR/BuiltinOps.h"
#include <memory>
#include <set>

namespace heddle::eval {

/// Executes the step programs of a module: every rank that it is made for, all
/// in this process. Inputs, outputs and states are those of the whole. States
/// live on from one run to the next.
class Interpreter {
public:
  /// The ranks that the module is made for: one before the pipe phase; one for
  /// each model of a module that is split into stages, while their shapes are
  /// those of the whole; all of the mesh from the spmd phase on.
  static plan::Mesh meshOf(mlir::ModuleOp module);
  /// The interpreter of the first model or plan of the module, or of all its
  /// stages; null, with an error reported, when there is none.
  static std::unique_ptr<Interpreter> create(mlir::ModuleOp module,
                                             const InterpreterOptions &options);

  /// Runs that program once. Inputs and
  /// outputs go by the keys of ports. An input may have another shape with as
  /// many elements as its port. Where the program's inputs are for one part of
  /// the batch, it runs once for each; the loss is then their mean. Ranks must
  /// agree about every output that is a number; others are the first rank's
  /// where they are not split over ranks.
  mlir::LogicalResult run(const ProgramName &name, const TensorMap &inputs,
                          TensorMap &outputs);

  /// The keys of what a program takes, on any rank; none where some rank has no
  /// such program.
  std::optional<std::set<std::string>> inputsOf(const ProgramName &name) const;

  /// The states of all ranks, each once.
  const std::vector<StateInfo> &states() const { return stateInfos; }
  /// The whole value of a state; `name` must be one of `states()`.
  Tensor state(const std::string &name) const;
  void setState(const std::string &name, const Tensor &value);

  /// Sets every state: parameters from a directory, or, when it is empty, from
  /// where the module says or at random from `seed` (none: the module's).
  /// Compute copies follow the parameters.
  bool initialize(const std::string &weightsDirectory,
                  std::optional<uint64_t> seed, Diagnostic &error);
  const dist::Strategy &strategy() const { return chosen; }

private:
  explicit Interpreter(const plan::Mesh &mesh) : world(mesh) {}
  bool addRank(std::unique_ptr<RankInterpreter> rank);
  bool loadParameters(const std::string &directory, Diagnostic &error);
  /// Gives a state the whole weight that it is, or is made of: with its codes,
  /// or those that its values are rounded to.
  void setWeight(const StateInfo &info, const Tensor &value,
                 rt::GroupScales codes = {});
  mlir::LogicalResult join(const ProgramName &program,
                           llvm::ArrayRef<TensorMap> given, TensorMap &outputs);
  const StateInfo &infoOf(const std::string &name) const;

  /// Where the elements that a rank stores stand in the whole states.
  using Places = std::map<std::string, std::vector<rt::ElementRange>>;

  World world;
  std::vector<std::unique_ptr<RankInterpreter>> ranks;
  std::vector<Places> places; ///< Of each rank.
  std::vector<StateInfo> stateInfos;
  dist::Strategy chosen;
  mlir::DictionaryAttr weights;
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_INTERPRETER_H
