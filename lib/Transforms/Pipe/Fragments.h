//===- Fragments.h - Which operation is in which fragment -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PIPE_FRAGMENTS_H
#define HEDDLE_LIB_TRANSFORMS_PIPE_FRAGMENTS_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"

namespace heddle::pipe {

/// The way of a micro-batch through n virtual stages. Its fragments are
/// numbered along it: the forward one of stage k is k, its backward one
/// 2n - 1 - k. With `halves` that makes the gradients that the stage before
/// waits for; the weights' are made in the fragment 3n - 1 - k.
struct FragmentNumbering {
  int64_t ranks = 1;  ///< Along `pipe`.
  int64_t chunks = 1; ///< Virtual stages of each rank.
  bool halves = false;

  int64_t stages() const { return ranks * chunks; }
  bool isForward(int64_t fragment) const { return fragment < stages(); }
  bool isWeight(int64_t fragment) const { return fragment >= 2 * stages(); }
  int64_t backwardOf(int64_t stage) const { return 2 * stages() - 1 - stage; }
  int64_t weightOf(int64_t stage) const { return 3 * stages() - 1 - stage; }
  /// The virtual stage.
  int64_t stageOf(int64_t fragment) const {
    return isForward(fragment) ? fragment : stages() - 1 - fragment % stages();
  }
  /// That of a chunk of a rank.
  int64_t stageAt(int64_t rank, int64_t chunk) const {
    return chunk * ranks + rank;
  }
  int64_t rankOf(int64_t fragment) const { return stageOf(fragment) % ranks; }
  int64_t chunkOf(int64_t fragment) const { return stageOf(fragment) / ranks; }
};

/// A link in the gradient of a parameter that several fragments use: the later
/// one adds to what the earlier one made. Split, each stage keeps its own part.
struct PassedSum {
  mlir::OpOperand *operand = nullptr; ///< Where the later one takes it over.
  mlir::Value start; ///< What the earlier one adds to; null: nothing.
  mlir::Value total; ///< The whole sum.
  llvm::SmallVector<mlir::Operation *> chain; ///< Brings it into its state.
};

/// The gradient of a parameter that several stages use: each has a part of it.
struct SharedSum {
  mlir::FlatSymbolRefAttr state;         ///< Or bucket.
  llvm::SmallVector<int64_t> ranks = {}; ///< Along `pipe`, in order.
};

/// Tells for every operation of a micro-batch's body where it runs. Reads of
/// states, slices of inputs, constants, and what gathers parameters, are made
/// anew in every fragment that uses them. A call of a layer is in the fragments
/// of the stage that has its path: the first one forward, the second one
/// backward, a third one makes the weights' gradients. An operation between the
/// last forward and the first backward call is in the last stage's backward
/// fragment, so that logits are not kept; any other one is where its operands
/// are made.
class Fragments {
public:
  /// `stages` gives the virtual stage of a path. With `backward` there are
  /// backward fragments. `symbols` are those of the whole model.
  Fragments(mlir::Block &body, const FragmentNumbering &numbering,
            const mlir::SymbolTable &symbols,
            const llvm::DenseMap<mlir::Attribute, int64_t> &stages,
            bool backward)
      : body(body), numbering(numbering), symbols(symbols), stages(stages),
        backward(backward) {}
  mlir::LogicalResult assign();

  /// The fragment of an operation; -1 when it is made anew wherever it is used.
  int64_t of(mlir::Operation *op) const {
    auto found = numbers.find(op);
    return found == numbers.end() ? -1 : found->second;
  }
  /// What is passed on through this operand, or null.
  const PassedSum *passedThrough(mlir::OpOperand &operand) const;
  llvm::ArrayRef<PassedSum> passedSums() const { return sums; }
  /// By the parameter's name.
  const llvm::MapVector<mlir::StringAttr, SharedSum> &sharedSums() const {
    return shared;
  }
  /// The result that an operand is added into; null where it is in none.
  mlir::Value sumThrough(mlir::OpOperand &operand) const;

  mlir::Block &body;
  const FragmentNumbering &numbering;

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
  llvm::SmallVector<mlir::Operation *> open; ///< To be put where it is used.
  mlir::Operation *firstForward = nullptr, *lastForward = nullptr,
                  *firstBackward = nullptr;
  llvm::SmallVector<PassedSum> sums;
  llvm::MapVector<mlir::StringAttr, SharedSum> shared;
};

/// How a value comes to a fragment that did not make it.
struct Arrival {
  int64_t from = 0;    ///< The fragment that had it before.
  std::string channel; ///< Empty: in a slot; both are of one virtual stage.
};

/// What a fragment does with a value that later ones need.
struct Departure {
  std::string state;   ///< Its slots; empty: it is sent from where it is.
  std::string channel; ///< Empty: nobody else needs it.
  int64_t delta = 0;   ///< To the rank that is so much further along `pipe`.
};

/// Brings values from where they are made to where they are used: along the
/// forward fragments, in slots from a stage's forward to its backward fragment,
/// along the backward fragments.
class Routes {
public:
  /// With `slots` there are several micro-batches under way.
  Routes(const Fragments &fragments, bool slots);

  using Key = std::pair<mlir::Value, int64_t>;
  llvm::MapVector<Key, Arrival> arrivals;
  llvm::MapVector<Key, Departure> departures;

private:
  void require(mlir::Value value, int64_t fragment);

  const Fragments &fragments;
  bool slots;
  llvm::DenseMap<int64_t, unsigned> channels, states; ///< How many have names.
};

} // namespace heddle::pipe

#endif // HEDDLE_LIB_TRANSFORMS_PIPE_FRAGMENTS_H
