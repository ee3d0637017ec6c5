//===- RankInterpreter.h - Executes what one rank runs ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interface of the two interpreters of a rank: ModelInterpreter for
// tensors, PlanInterpreter for bytes. Interpreter runs one for each rank.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_RANKINTERPRETER_H
#define HEDDLE_EVAL_RANKINTERPRETER_H

#include "dialects/NN/NNDialect.h"
#include "heddle/Eval/Tensor.h"
#include "heddle/Eval/World.h"
#include <map>
#include <string>

namespace heddle::eval {

/// Tensors by the names of ports or states.
using TensorMap = std::map<std::string, Tensor>;

struct InterpreterOptions {
  /// Do not round. Otherwise every value is rounded to its type in the IR.
  /// Compiled kernels always compute in the IR's types.
  bool fullPrecision = false;
  /// The number of threads with which compiled kernels are called.
  int64_t threads = 1;
  /// For a plan: fill the bytes of buffers with NaN when their lifetime ends,
  /// and those that a communication in flight will write, so that wrong reads
  /// show.
  bool poison = false;
};

/// Facts about a state, at every phase.
struct StateInfo {
  std::string name, parameter;
  std::optional<nn::StateRole> role; ///< None: an edited plan has none.
  /// For parameters: the tensors of the weight files.
  std::vector<plan::WeightSlice> sources;
  ElementKind kind = ElementKind::F32;
  std::vector<int64_t> shape; ///< The rank's shard, apart from flat axes.
  plan::Placement placement;  ///< The shard's position in the whole.
  plan::Init init;
  /// At most one, for a derived state, as in plan::State.
  std::vector<plan::PackedWeight> packed;
  /// As plan::State::isCopy.
  bool isCopy() const {
    return role == nn::StateRole::Derived && packed.empty();
  }
  /// The shape of the rank's shard, or of the shard of the weight that a
  /// derived state is made of.
  const std::vector<int64_t> &partShape() const {
    return packed.empty() ? shape : packed[0].shape;
  }
  const std::vector<int64_t> &wholeShape() const {
    return placement.whole.empty() ? partShape() : placement.whole;
  }
  /// The name in files and for random streams.
  const std::string &weightName() const {
    return packed.empty() ? name : packed[0].name;
  }
};

/// Names a program of a module: the first one of a kind, or one of a plan, such
/// as `decode/8`.
class ProgramName {
public:
  ProgramName(nn::ProgramKind kind) : text(stringifyProgramKind(kind)) {}
  /// Parses a name. None if the word before the slash is not a kind of program.
  static std::optional<ProgramName> parse(llvm::StringRef text);

  const std::string &str() const { return text; }
  /// Whether it names the program of that kind and symbol.
  bool isOf(std::optional<nn::ProgramKind> kind, llvm::StringRef symbol) const;

private:
  std::string text;
};

/// A run of a program on part `part` of `parts` equal parts of the inputs.
struct BatchSlice {
  int64_t part = 0, parts = 1;
};

/// Executes the programs of one model on one rank, in the form that the last
/// phase left: functions and steps on tensors (until `kernels`), or a plan on
/// bytes (from `memory` on). Compiled kernels are called. States persist from
/// run to run.
class RankInterpreter {
public:
  virtual ~RankInterpreter() = default;

  /// The model or plan.
  virtual mlir::Operation *source() = 0;
  /// The number of runs into which the batch of `inputs` is split for a
  /// program: 1 if it does not take the batch.
  virtual int64_t batchParts(const ProgramName &name,
                             const TensorMap &inputs) = 0;
  /// Runs a program once, on one part of the batch, and adds its results to
  /// `outputs`. Must be called within World::run.
  virtual mlir::LogicalResult run(const ProgramName &name,
                                  const TensorMap &inputs,
                                  const BatchSlice &batch,
                                  TensorMap &outputs) = 0;

  /// The names of a program's inputs; none if there is no such program.
  virtual std::optional<std::vector<std::string>>
  inputsOf(const ProgramName &name) = 0;
  /// The program's `ports`, which describe those that are split over ranks.
  virtual mlir::DictionaryAttr portsOf(const ProgramName &name) = 0;

  const std::vector<StateInfo> &states() const { return stateInfos; }
  /// What this rank stores of a state: its shard, or with flat axes its range
  /// of the flat tensor. `name` must be in `states()`.
  virtual Tensor stored(const std::string &name) const = 0;
  virtual void store(const std::string &name, const Tensor &value) = 0;

protected:
  RankInterpreter(const Rank &rank, const InterpreterOptions &options)
      : rank(rank), options(options) {}

  /// The value of an integer operation (a constant, a sum, a product, or a
  /// rank's number); none for other operations.
  std::optional<int64_t>
  number(mlir::Operation *op,
         llvm::function_ref<int64_t(mlir::Value)> valueOf) const;
  /// Calls `run` for each fragment of a stage's schedule line, with its region,
  /// micro-batch and slot.
  mlir::LogicalResult runFragments(
      mlir::Operation *fragments,
      llvm::function_ref<mlir::LogicalResult(mlir::Block &, int64_t, int64_t)>
          run);

  Rank rank;
  InterpreterOptions options;
  std::vector<StateInfo> stateInfos;
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_RANKINTERPRETER_H
