//===- Updates.h - What updates read and write ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows the operands and results of optimizer updates to states, through
// collectives, transfers, buckets and kernels. The verifiers of states use it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_COMMON_UPDATES_H
#define HEDDLE_LIB_TRANSFORMS_COMMON_UPDATES_H

#include "heddle/Transforms/Common/States.h"
#include <map>

namespace heddle::states {

/// The state of that name, or the first member of the bucket of that name.
llvm::StringRef firstStateOf(const mlir::SymbolTable &symbols,
                             llvm::StringRef name);

/// Whether the operation is a collective, a slice, a wait or a move: it makes
/// one value from one other value, with the same elements or their sum over
/// ranks.
inline bool isExchange(mlir::Operation *op) {
  return llvm::isa<dist::DistDialect>(op->getDialect()) &&
         !llvm::isa<dist::FetchOp, dist::FetchRowsOp>(op) &&
         op->getNumOperands() == 1 && op->getNumResults() == 1;
}

/// The operation that computes a value. Looks through exchanges and nn.unpack.
/// Null if there is none.
inline mlir::Operation *makerOf(mlir::Value value) {
  mlir::Operation *op = value ? value.getDefiningOp() : nullptr;
  while (op && (isExchange(op) || llvm::isa<nn::UnpackOp>(op)))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

/// The operations that compute a value; those of all members if it is packed.
inline llvm::SmallVector<mlir::Operation *> makersOf(mlir::Value value) {
  auto pack = llvm::dyn_cast_or_null<nn::PackOp>(makerOf(value));
  if (!pack)
    return {makerOf(value)};
  return llvm::map_to_vector(pack.getMembers(), makerOf);
}

/// A range of elements of states that lie side by side: elements `first` to
/// `first` + `count` of the `whole` elements of the states of `parameters`.
struct StateRange {
  llvm::SmallVector<llvm::StringRef> parameters; ///< Empty: no such states.
  int64_t first = 0, count = 0, whole = 0;

  bool operator==(const StateRange &other) const {
    return parameters == other.parameters && first == other.first &&
           count == other.count && whole == other.whole;
  }
};

/// The offset of each member in a flat tensor, in elements.
inline llvm::SmallVector<int64_t> offsetsOf(mlir::TypeRange members) {
  llvm::SmallVector<int64_t> offsets;
  int64_t offset = 0;
  for (mlir::Type member : members) {
    offsets.push_back(offset);
    offset += nn::paddedElements(elementsOf(member));
  }
  return offsets;
}

/// What an update reads and writes. `op` is the nn.update, or the launch of a
/// kernel that has one.
struct Update {
  mlir::Operation *op = nullptr;
  /// Operands. Null: computed inside of the kernel.
  mlir::Value parameter, gradient;
  llvm::SmallVector<mlir::Value> states;
  /// Results. Null: the update does not make it, or does not return it.
  mlir::Value newParameter, copy;
  llvm::SmallVector<mlir::Value> newStates;
};

/// Finds the states that the values of a model's updates are read from and
/// written to. Works in all phases from train on.
class UpdateReader {
public:
  explicit UpdateReader(nn::ModelOp model) : symbols(model) {}

  nn::StateRole roleOf(llvm::StringRef state);
  /// The parameter that a state belongs to; the state itself if it is one.
  llvm::StringRef parameterOf(llvm::StringRef name);
  /// The body of the kernel that an operation launches; null for other
  /// operations.
  mlir::Block *kernelOf(mlir::Operation *op);
  /// Whether the operation is the optimizer's, or launches a kernel with such
  /// an operation.
  bool isOptimizers(mlir::Operation *op);
  std::optional<Update> updateOf(mlir::Operation *op);
  /// The parameters of the states that `name`, a state or a bucket, stands for.
  /// Empty if one of them has another kind (see `kindOf`).
  llvm::ArrayRef<llvm::StringRef> parametersOf(llvm::StringRef name,
                                               llvm::StringRef kind);
  /// The kind of a state: its role, or the optimizer's name for it, as
  /// "exp_avg".
  llvm::StringRef kindOf(llvm::StringRef state);
  int64_t elementsOfState(llvm::StringRef name);
  /// The range of states of this kind that a value is read from.
  StateRange rangeRead(mlir::Value value, llvm::StringRef kind);
  /// The range of states of this kind that a value is written to.
  StateRange rangeWritten(mlir::Value value, llvm::StringRef kind);

protected:
  mlir::SymbolTable symbols;

private:
  /// The offsets of the members that an operation packs or unpacks, cached.
  llvm::ArrayRef<int64_t> offsetsIn(mlir::Operation *op,
                                    mlir::TypeRange members);

  // Caches for large models: a flat state has the states of all layers, and
  // many tiles of it are read and written.
  std::map<std::pair<llvm::StringRef, llvm::StringRef>,
           llvm::SmallVector<llvm::StringRef>>
      parameters;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int64_t>> offsets;

  /// The same; `range` is what is known so far.
  StateRange rangeWritten(mlir::Value value, llvm::StringRef kind,
                          StateRange range);
};

} // namespace heddle::states

#endif // HEDDLE_LIB_TRANSFORMS_COMMON_UPDATES_H
