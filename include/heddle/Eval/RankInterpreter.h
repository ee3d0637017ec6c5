//===- RankInterpreter.h - Executes what one rank runs ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interface of the two interpreters that execute programs on one rank.
// ModelInterpreter computes with tensors, PlanInterpreter with bytes in memory.
// Interpreter creates one of them for each rank.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_RANKINTERPRETER_H
#define HEDDLE_EVAL_RANKINTERPRETER_H

#include "dialects/NN/NNDialect.h"
#include "heddle/Eval/Tensor.h"
#include "heddle/Eval/World.h"
#include "heddle/PlanFormat/Condition.h"
#include "heddle/PlanFormat/Phase.h"
#include "llvm/ADT/StringSet.h"
#include <map>
#include <string>

namespace heddle::eval {

/// Tensors by the names of states, or of a program's inputs or outputs.
using TensorMap = std::map<std::string, Tensor>;

struct InterpreterOptions {
  /// Whether values are not rounded. Otherwise every value is rounded to its
  /// type in the IR. Compiled kernels always compute in the types of the IR.
  bool fullPrecision = false;
  /// The number of threads with which compiled kernels are called.
  int64_t threads = 1;
  /// For plans: whether to fill a buffer with NaN when its lifetime ends. Bytes
  /// that a running communication will write are filled, too. A command that
  /// reads such bytes too late or too early then gets NaN.
  bool poison = false;
};

/// The properties of a state that both interpreters provide: ModelInterpreter
/// for modules before the plan exists, PlanInterpreter for plans.
struct StateInfo {
  std::string name, parameter;
  std::optional<nn::StateRole> role; ///< nullopt: the module gives no role.
  /// For a parameter: the slices of tensors in weight files from which the
  /// parameter is read.
  std::vector<plan::WeightSlice> sources;
  ElementKind kind = ElementKind::F32;
  /// The shape of the rank's shard, as in plan::State::shape.
  std::vector<int64_t> shape;
  plan::Placement placement; ///< How the shard lies in the whole tensor.
  plan::Init init;
  std::vector<int32_t> value; ///< The elements of a constant.
  /// Has one element if the state is a weight that is quantized or in a layout
  /// that kernels read: how the state is computed from the weight in the files.
  /// It is empty for all other states. It equals plan::State::packed.
  std::vector<plan::PackedWeight> packed;
  std::vector<plan::Quantizer> quantizer; ///< As plan::State::quantizer.
  /// As plan::State::isCopy.
  bool isCopy() const {
    return role == nn::StateRole::Derived && packed.empty();
  }
  /// The shape of the rank's shard of the tensor from which the state is read.
  /// This is the state's tensor, or, if the state is a quantized or packed
  /// weight, the weight in its original form.
  const std::vector<int64_t> &partShape() const {
    return packed.empty() ? shape : packed[0].shape;
  }
  const std::vector<int64_t> &wholeShape() const {
    return placement.whole.empty() ? partShape() : placement.whole;
  }
  /// The name by which weight files and the random generator know the state.
  const std::string &weightName() const {
    return packed.empty() ? name : packed[0].name;
  }
};

/// The name of a program of a module. It is the kind of the program, such as
/// `decode`. If there are programs of several sizes, the size follows:
/// `decode/8` is for up to 8 sequences. The kind alone then means the first of
/// these programs.
class ProgramName {
public:
  ProgramName(nn::ProgramKind kind) : text(stringifyProgramKind(kind)) {}
  /// Parses a name. Returns nullopt if the word before the slash is not a kind
  /// of program.
  static std::optional<ProgramName> parse(llvm::StringRef text);

  const std::string &str() const { return text; }
  /// Whether this is the name of the program with that kind, symbol and phase,
  /// which may be null.
  bool isOf(std::optional<nn::ProgramKind> kind, llvm::StringRef symbol,
            nn::PhaseAttr phase) const;

private:
  std::string text;
};

/// A run of a program on part `part` of `parts` equal parts of the inputs.
struct BatchSlice {
  int64_t part = 0, parts = 1;
};

/// Executes the programs of one model on one rank, in the form that the last
/// phase produced. This form is functions and steps on tensors (until the phase
/// `kernels`), or a plan on bytes (from `memory` on). Compiled kernels are
/// called. States persist from run to run.
class RankInterpreter {
public:
  virtual ~RankInterpreter() = default;

  /// The model or plan.
  virtual mlir::Operation *source() = 0;
  /// The conditions of the model or plan, in their order.
  std::vector<plan::Condition> conditions();
  /// The phases of the train programs; empty if a single program trains.
  std::vector<plan::Phase> phases();
  /// The number of runs into which the batch of `inputs` must be split, because
  /// a run of the program takes only a part of it. 1 if the program has no
  /// inputs of the batch.
  virtual int64_t batchParts(const ProgramName &name,
                             const TensorMap &inputs) = 0;
  /// Runs a program once, on one part of the batch, and adds its results to
  /// `outputs`. Must be called within World::run.
  virtual mlir::LogicalResult run(const ProgramName &name,
                                  const TensorMap &inputs,
                                  const BatchSlice &batch,
                                  TensorMap &outputs) = 0;

  /// The names of a program's inputs; nullopt if there is no such program.
  virtual std::optional<std::vector<std::string>>
  inputsOf(const ProgramName &name) = 0;
  /// The program's attribute `ports`, which describes the inputs and outputs
  /// that are split over ranks.
  virtual mlir::DictionaryAttr portsOf(const ProgramName &name) = 0;

  const std::vector<StateInfo> &states() const { return stateInfos; }
  /// What this rank stores of a state: the rank's shard of the state. If the
  /// state is a member of a flat tensor that ranks split, it is the rank's
  /// range of the flat tensor, with all members. `name` must be in `states()`.
  virtual Tensor stored(const std::string &name) const = 0;
  virtual void store(const std::string &name, const Tensor &value) = 0;

protected:
  RankInterpreter(const Rank &rank, const InterpreterOptions &options)
      : rank(rank), options(options) {}

  /// Computes an integer operation: a constant, a sum, a product, or the rank's
  /// index. Returns nullopt for other operations.
  std::optional<int64_t>
  number(mlir::Operation *op,
         llvm::function_ref<int64_t(mlir::Value)> valueOf) const;
  /// Sets which conditions hold in the next run: an input with a condition's
  /// name says so by a number other than 0. Conditions without such an input
  /// hold.
  void setOutcomes(const TensorMap &inputs);
  /// Whether the condition holds in this run; true if there is no condition.
  bool holds(mlir::FlatSymbolRefAttr condition) const {
    return !condition || !falseConditions.contains(condition.getValue());
  }

  /// Calls `run` for each fragment (the forward or backward pass of a
  /// micro-batch) in the order of the stage's pipeline schedule. `run` gets the
  /// fragment's body, the index of the micro-batch, and the index of a slot:
  /// the buffers for the values of one micro-batch.
  mlir::LogicalResult runFragments(
      mlir::Operation *fragments,
      llvm::function_ref<mlir::LogicalResult(mlir::Block &, int64_t, int64_t)>
          run);

  Rank rank;
  InterpreterOptions options;
  std::vector<StateInfo> stateInfos;

private:
  llvm::StringSet<> falseConditions; ///< Those that do not hold in this run.
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_RANKINTERPRETER_H
