//===- Fragments.h - Assigns operations to fragments ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns the operations of a training step to pipeline fragments (the forward
// or backward pass of one stage), and finds the values that fragments must send
// to each other or save. pipe-split uses it before it writes a model for each
// stage.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PIPE_FRAGMENTS_H
#define HEDDLE_LIB_TRANSFORMS_PIPE_FRAGMENTS_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"
#include <map>
#include <tuple>

namespace heddle::pipe {

/// The numbers of a micro-batch's fragments, in the order in which it passes
/// through n virtual stages. Fragment k is the forward pass of stage k, and
/// fragment 2n - 1 - k its backward pass. With `halves` (the schedule zb-h1)
/// the backward pass only computes the gradient of the stage's input. Fragment
/// 3n - 1 - k then computes the gradients of the stage's weights.
struct FragmentNumbering {
  int64_t ranks = 1;  ///< The number of ranks along the mesh axis `pipe`.
  int64_t chunks = 1; ///< The number of virtual stages of each rank.
  bool halves = false;

  int64_t stages() const { return ranks * chunks; }
  bool isForward(int64_t fragment) const { return fragment < stages(); }
  bool isWeight(int64_t fragment) const { return fragment >= 2 * stages(); }
  int64_t backwardOf(int64_t stage) const { return 2 * stages() - 1 - stage; }
  int64_t weightOf(int64_t stage) const { return 3 * stages() - 1 - stage; }
  /// The virtual stage whose forward or backward pass is `fragment`.
  int64_t stageOf(int64_t fragment) const {
    return isForward(fragment) ? fragment : stages() - 1 - fragment % stages();
  }
  /// The index, among all virtual stages, of the rank's virtual stage number
  /// `chunk`. A rank has several ("model chunks" in Megatron).
  int64_t stageAt(int64_t rank, int64_t chunk) const {
    return chunk * ranks + rank;
  }
  int64_t rankOf(int64_t fragment) const { return stageOf(fragment) % ranks; }
  int64_t chunkOf(int64_t fragment) const { return stageOf(fragment) / ranks; }
};

/// A gradient of a parameter that two virtual stages use, such as a tied
/// embedding. In the whole model, the backward pass of one of these stages adds
/// its summand to the sum that the other stage's backward pass returns. After
/// the model is split, each stage has its own sum.
struct PassedSum {
  /// The operand by which the second of the two stages' backward passes reads
  /// the sum that the first one returns.
  mlir::OpOperand *operand = nullptr;
  /// The initial value of the gradient, to which the first of the two stages'
  /// backward passes adds its summand. Null if there is none.
  mlir::Value start;
  /// The gradient after the backward passes of both stages have added their
  /// summands.
  mlir::Value total;
  /// The operations on the way from `total` to the nn.set that writes this sum
  /// to a state, including the nn.set.
  llvm::SmallVector<mlir::Operation *> chain;
};

/// The gradient of a parameter that several stages use. Each of these stages
/// computes one summand.
struct SharedSum {
  mlir::FlatSymbolRefAttr state; ///< The state or bucket of the gradient.
  /// The coordinates, along the mesh axis `pipe`, of the stages that use the
  /// parameter, in order.
  llvm::SmallVector<int64_t> ranks = {};
};

/// Maps each operation of a micro-batch's body to the fragment (forward or
/// backward pass of a stage) that runs it:
/// - Reads of states, slices of inputs, constants and all-gathers of parameters
///   are repeated in every fragment that uses them.
/// - The calls of a layer belong to the layer's stage. The first call is the
///   forward pass, the second call the backward pass. A third call, if there is
///   one, computes the gradients of the weights.
/// - Operations between the last forward call and the first backward call
///   belong to the last stage's backward fragment, so that logits need not be
///   saved.
/// - Any other operation belongs to the fragment that computes its operands.
class Fragments {
public:
  /// `stages` maps the path of each layer to the layer's virtual stage.
  /// `backward` says whether the body has backward passes. `symbols` is the
  /// symbol table of the whole model.
  Fragments(mlir::Block &body, const FragmentNumbering &numbering,
            const mlir::SymbolTable &symbols,
            const llvm::DenseMap<mlir::Attribute, int64_t> &stages,
            bool backward)
      : body(body), numbering(numbering), symbols(symbols), stages(stages),
        backward(backward) {}
  mlir::LogicalResult assign();

  /// The number of the fragment (forward or backward pass of a stage) that runs
  /// an operation. -1 if it is repeated in every fragment that uses it.
  int64_t of(mlir::Operation *op) const {
    auto found = numbers.find(op);
    return found == numbers.end() ? -1 : found->second;
  }
  /// If `operand` is a gradient's partial sum that an earlier fragment (a
  /// backward pass of one stage) returns, and to which the operand's fragment
  /// adds: a description of this sum. Otherwise null.
  const PassedSum *passedThrough(mlir::OpOperand &operand) const;
  llvm::ArrayRef<PassedSum> passedSums() const { return sums; }
  /// The gradients to which several stages add summands. The keys are the names
  /// of the parameters.
  const llvm::MapVector<mlir::StringAttr, SharedSum> &sharedSums() const {
    return shared;
  }
  /// If the owner of `operand` adds something to it, directly or in a called
  /// function: the result of this addition. Otherwise null.
  mlir::Value sumThrough(mlir::OpOperand &operand) const;

  mlir::Block &body;
  const FragmentNumbering &numbering;
  const mlir::SymbolTable &getSymbols() const { return symbols; }

private:
  mlir::LogicalResult assignCalls();
  void assignOther(mlir::Operation *op, bool beforeForward, bool afterForward,
                   bool beforeBackward);
  void assignByUsers();
  mlir::LogicalResult findPassedSums();
  mlir::LogicalResult addPassedSum(mlir::OpOperand &operand);
  mlir::Value startOf(mlir::Value sum) const;
  mlir::Value endOf(mlir::Value sum) const;
  mlir::LogicalResult checkOrder();

  const mlir::SymbolTable &symbols;
  const llvm::DenseMap<mlir::Attribute, int64_t> &stages;
  bool backward;
  llvm::DenseMap<mlir::Operation *, int64_t> numbers;
  /// Operations that are assigned to the fragment (forward or backward pass of
  /// a stage) of their first user, after all other operations were assigned.
  llvm::SmallVector<mlir::Operation *> open;
  mlir::Operation *firstForward = nullptr, *lastForward = nullptr,
                  *firstBackward = nullptr;
  llvm::SmallVector<PassedSum> sums;
  llvm::MapVector<mlir::StringAttr, SharedSum> shared;
};

/// How a fragment (forward or backward pass of a stage) gets a value that
/// another fragment has computed.
struct Arrival {
  int64_t from = 0; ///< The fragment that sends or saves the value.
  /// The channel on which the value is received. Empty if the value is read
  /// from a state, where the same virtual stage has saved it.
  std::string channel;
};

/// What a fragment (forward or backward pass of a stage) does with a value that
/// later fragments need.
struct Departure {
  /// The state that saves the value, with a slot for each micro-batch in
  /// flight. Empty if the value is sent without being saved.
  std::string state;
  /// The channel that the value is sent on; empty: no other rank needs it.
  std::string channel;
  /// The receiver's coordinate along the mesh axis `pipe` minus the sender's.
  int64_t delta = 0;
};

/// Names the states in which virtual stages save values for later fragments.
/// Several train programs use the same states for values of the same type,
/// because only one of them runs in a step.
class SavedStates {
public:
  /// The next train program begins: it may use all states again.
  void beginProgram() { used.clear(); }
  /// The name of a state for a value of the virtual stage `keeper`.
  std::string take(int64_t keeper, mlir::Type type,
                   dist::TensorShardingAttr sharding);

private:
  using Key = std::tuple<int64_t, const void *, const void *>;
  std::map<Key, std::vector<std::string>> names;
  std::map<Key, size_t> used; ///< How many the current program has taken.
  llvm::DenseMap<int64_t, unsigned> counts; ///< For each virtual stage.
};

/// Plans how values get from the fragment (forward or backward pass of a stage)
/// that computes them to the fragments that use them. From one forward pass to
/// the next, and from one backward pass to the next, values are sent from stage
/// to stage. From a stage's forward pass to its backward pass, values are saved
/// in states.
class Routes {
public:
  /// `saved` is null if a single micro-batch is in flight at a time. Otherwise
  /// a saved value needs a slot for each, in a state that `saved` names.
  Routes(const Fragments &fragments, SavedStates *saved);

  using Key = std::pair<mlir::Value, int64_t>;
  llvm::MapVector<Key, Arrival> arrivals;
  llvm::MapVector<Key, Departure> departures;

private:
  void require(mlir::Value value, int64_t fragment);

  const Fragments &fragments;
  SavedStates *saved;
  /// Counts the channels to each fragment. A new channel has this count in its
  /// name.
  llvm::DenseMap<int64_t, unsigned> channels;
};

} // namespace heddle::pipe

#endif // HEDDLE_LIB_TRANSFORMS_PIPE_FRAGMENTS_H
