//===- Interpreter.h - Executes a module of any phase -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_INTERPRETER_H
#define HEDDLE_EVAL_INTERPRETER_H

#include "dialects/Dist/Strategy.h"
#include "dialects/NN/NNDialect.h"
#include "heddle/Eval/Tensor.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "mlir/IR/BuiltinOps.h"
#include <map>
#include <memory>
#include <string>

namespace heddle::eval {

/// Tensors by the names of ports or states.
using TensorMap = std::map<std::string, Tensor>;

struct InterpreterOptions {
  /// Nothing is rounded; else every value is rounded to its type in the IR.
  /// Compiled kernels always compute in the types of the IR.
  bool fullPrecision = false;
  /// On how many threads compiled kernels believe to run.
  int64_t threads = 1;
  /// Of a plan: bytes outside the lifetimes of their buffers are made NaN, so
  /// that whoever reads them is seen.
  bool poison = false;
};

/// What is known of a state, at every phase.
struct StateInfo {
  std::string name, role, parameter, source;
  ElementKind kind = ElementKind::F32;
  std::vector<int64_t> shape;
  std::string initKind = "zeros";
  double initValue = 0, initStddev = 0;

  /// Takes how the first value is made; null: zeros.
  void setInit(nn::InitAttr init);
};

/// Executes the step programs of one model, in whatever form the phase left it:
/// functions and steps on tensors (until `kernels`), or a plan on bytes (from
/// `memory` on). Compiled kernels, where there are any, are executed as they
/// are. States live on from one run to the next.
class Interpreter {
public:
  virtual ~Interpreter() = default;

  /// The interpreter of the first model or plan of the module; null, with an
  /// error reported, when there is none.
  static std::unique_ptr<Interpreter> create(mlir::ModuleOp module,
                                             const InterpreterOptions &options);

  /// Runs the program of that kind (train, eval, generate) once. Inputs and
  /// outputs go by the names of ports. An input may have another shape with as
  /// many elements as its port. Where the program's inputs are for one part of
  /// the batch, it runs once for each; the loss is then their mean.
  virtual mlir::LogicalResult run(llvm::StringRef kind, const TensorMap &inputs,
                                  TensorMap &outputs) = 0;

  const std::vector<StateInfo> &states() const { return stateInfos; }
  /// The value of a state; `name` must be one of `states()`.
  virtual Tensor state(const std::string &name) const = 0;
  virtual void setState(const std::string &name, const Tensor &value) = 0;

  /// Sets every state: parameters from a directory, or, when it is empty, from
  /// where the module says or at random from `seed` (none: the module's).
  /// Compute copies follow the parameters.
  bool initialize(const std::string &weightsDirectory,
                  std::optional<uint64_t> seed, Diagnostic &error);
  const dist::Strategy &strategy() const { return chosen; }

protected:
  void setStrategy(dist::Strategy strategy) { chosen = std::move(strategy); }
  void setWeights(mlir::DictionaryAttr attribute) { weights = attribute; }
  void addState(StateInfo info) { stateInfos.push_back(std::move(info)); }

private:
  bool loadParameters(const std::string &directory, Diagnostic &error);

  std::vector<StateInfo> stateInfos;
  dist::Strategy chosen;
  mlir::DictionaryAttr weights;
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_INTERPRETER_H
