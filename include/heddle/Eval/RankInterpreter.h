//===- RankInterpreter.h - Executes what one rank runs ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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
  /// Nothing is rounded; else every value is rounded to its type in the IR.
  /// Compiled kernels always compute in the types of the IR.
  bool fullPrecision = false;
  /// On how many threads compiled kernels believe to run.
  int64_t threads = 1;
  /// Of a plan: bytes outside the lifetimes of their buffers are made NaN, and
  /// those that a communication under way will write, so that whoever reads
  /// them is seen.
  bool poison = false;
};

/// What is known of a state, at every phase.
struct StateInfo {
  std::string name, parameter;
  std::optional<nn::StateRole> role; ///< None: an edited plan says none.
  std::vector<plan::WeightSlice> sources; ///< Parameters: in the weight files.
  ElementKind kind = ElementKind::F32;
  std::vector<int64_t> shape; ///< Of the rank's part, but for flat axes.
  plan::Placement placement;  ///< Of the part in the whole.
  plan::Init init;
  /// At most one, of a derived state, as in plan::State.
  std::vector<plan::PackedWeight> packed;
  /// As in plan::State.
  bool isCopy() const {
    return role == nn::StateRole::Derived && packed.empty();
  }
  /// Of the rank's part, or of the weight's that a derived state is made of.
  const std::vector<int64_t> &partShape() const {
    return packed.empty() ? shape : packed[0].shape;
  }
  const std::vector<int64_t> &wholeShape() const {
    return placement.whole.empty() ? partShape() : placement.whole;
  }
  /// In files and random streams.
  const std::string &weightName() const {
    return packed.empty() ? name : packed[0].name;
  }
};

/// A program of a module: the first one of a kind, or the one that a plan calls
/// so, as `decode/8`.
class ProgramName {
public:
  ProgramName(nn::ProgramKind kind) : text(stringifyProgramKind(kind)) {}
  /// None where the word before a slash names no kind.
  static std::optional<ProgramName> parse(llvm::StringRef text);

  const std::string &str() const { return text; }
  /// Whether it is that program, with the symbol that it has in a module.
  bool isOf(std::optional<nn::ProgramKind> kind, llvm::StringRef symbol) const;

private:
  std::string text;
};

/// A run of a program on part `part` of `parts` of the inputs.
struct BatchSlice {
  int64_t part = 0, parts = 1;
};

/// Executes the step programs of one model, in whatever form the phase left it,
/// as one rank: functions and steps on tensors (until `kernels`), or a plan on
/// bytes (from `memory` on). Compiled kernels, where there are any, are
/// executed as they are. States live on from one run to the next.
class RankInterpreter {
public:
  virtual ~RankInterpreter() = default;

  /// The model or plan.
  virtual mlir::Operation *source() = 0;
  /// Into how many runs the inputs' batch is split for that program: 1 where it
  /// takes none of the batch.
  virtual int64_t batchParts(const ProgramName &name,
                             const TensorMap &inputs) = 0;
  /// Runs that program once, on one part of the batch, and adds what it
  /// gives to `outputs`. Must be called within World::run.
  virtual mlir::LogicalResult run(const ProgramName &name,
                                  const TensorMap &inputs,
                                  const BatchSlice &batch,
                                  TensorMap &outputs) = 0;

  /// The keys of what that program takes; none where there is no such program.
  virtual std::optional<std::vector<std::string>>
  inputsOf(const ProgramName &name) = 0;
  /// What that program says of its ports that are split over ranks.
  virtual mlir::DictionaryAttr portsOf(const ProgramName &name) = 0;

  const std::vector<StateInfo> &states() const { return stateInfos; }
  /// What this rank stores for a state: its part, or with flat axes its run of
  /// the flat tensor. `name` must be one of `states()`.
  virtual Tensor stored(const std::string &name) const = 0;
  virtual void store(const std::string &name, const Tensor &value) = 0;

protected:
  RankInterpreter(const Rank &rank, const InterpreterOptions &options)
      : rank(rank), options(options) {}

  /// The value of an operation on numbers: a constant, a sum, a product, or a
  /// rank's number; none for other operations.
  std::optional<int64_t>
  number(mlir::Operation *op,
         llvm::function_ref<int64_t(mlir::Value)> valueOf) const;
  /// Calls `run` with the region of each fragment of a stage's line, and with
  /// its micro-batch and slot.
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
