//===- Updates.h - What updates read and write ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the states that optimizer updates read and write. It follows operands
// and results through collectives, transfers, buckets and kernels. The
// verifiers of states use it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_COMMON_UPDATES_H
#define HEDDLE_LIB_TRANSFORMS_COMMON_UPDATES_H

#include "heddle/Transforms/Common/States.h"
#include <map>

namespace heddle::states {

/// The state `name`. If `name` is a bucket, the first member of the bucket.
llvm::StringRef firstStateOf(const mlir::SymbolTable &symbols,
                             llvm::StringRef name);

/// Whether the operation is a collective, a slice, a wait, or a copy to other
/// memory (dist.move). Such an operation has one operand and one result. The
/// result has elements of the operand, or their sum over ranks.
inline bool isExchange(mlir::Operation *op) {
  return llvm::isa<dist::DistDialect>(op->getDialect()) &&
         !llvm::isa<dist::FetchOp, dist::FetchRowsOp>(op) &&
         op->getNumOperands() == 1 && op->getNumResults() == 1;
}

/// The operation that computes a value, found through exchanges (see
/// `isExchange`) and nn.unpack. Null if no operation computes it.
inline mlir::Operation *makerOf(mlir::Value value) {
  mlir::Operation *op = value ? value.getDefiningOp() : nullptr;
  while (op && (isExchange(op) || llvm::isa<nn::UnpackOp>(op)))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

/// Whether the value is written to the state or bucket `name`. It may be null.
inline bool isWritten(mlir::Value value, llvm::StringRef name) {
  return value && llvm::any_of(value.getUsers(), [&](mlir::Operation *user) {
           auto set = llvm::dyn_cast<nn::SetOp>(user);
           return set && set.getState() == name;
         });
}

/// The operations that compute a value. For the result of nn.pack these are the
/// operations that compute its members.
inline llvm::SmallVector<mlir::Operation *> makersOf(mlir::Value value) {
  auto pack = llvm::dyn_cast_or_null<nn::PackOp>(makerOf(value));
  if (!pack)
    return {makerOf(value)};
  return llvm::map_to_vector(pack.getMembers(), makerOf);
}

/// A range of elements in several concatenated states. They are the states of
/// one kind, such as the gradient or Adam's `exp_avg`, of each of `parameters`,
/// in this order. The states have `whole` elements together. The range has
/// `count` elements and begins at element `first`.
struct StateRange {
  /// The parameters that the states belong to. Empty if UpdateReader::rangeRead
  /// or rangeWritten found no states of the kind that its caller asked for.
  llvm::SmallVector<llvm::StringRef> parameters;
  int64_t first = 0, count = 0, whole = 0;

  bool operator==(const StateRange &other) const {
    return parameters == other.parameters && first == other.first &&
           count == other.count && whole == other.whole;
  }
};

/// The offset, in elements, of each member in the flat tensor that concatenates
/// them with padding.
inline llvm::SmallVector<int64_t> offsetsOf(mlir::TypeRange members) {
  llvm::SmallVector<int64_t> offsets;
  int64_t offset = 0;
  for (mlir::Type member : members) {
    offsets.push_back(offset);
    offset += nn::paddedElements(elementsOf(member));
  }
  return offsets;
}

/// The values that an update of the optimizer reads and writes. `op` is the
/// nn.update itself, or the launch of a kernel that contains an nn.update.
struct Update {
  mlir::Operation *op = nullptr;
  /// Operands of the update. An operand is null if the kernel that contains the
  /// update computes it.
  mlir::Value parameter, gradient;
  llvm::SmallVector<mlir::Value> states;
  /// Results of the update: the new parameter, its copy in the element type in
  /// which layers compute, and the optimizer's new states. A result is null if
  /// the update does not compute it, or if the kernel that contains the update
  /// does not return it.
  mlir::Value newParameter, copy;
  llvm::SmallVector<mlir::Value> newStates;
};

/// Finds the states that the optimizer's updates in a model read and write. It
/// can be used after the phase `train` and after every later phase.
class UpdateReader {
public:
  explicit UpdateReader(nn::ModelOp model) : symbols(model) {}

  nn::StateRole roleOf(llvm::StringRef state);
  /// The name of the parameter that a state belongs to. For a parameter itself,
  /// returns the parameter's name.
  llvm::StringRef parameterOf(llvm::StringRef name);
  /// The body of the kernel that an operation launches; null for other
  /// operations.
  mlir::Block *kernelOf(mlir::Operation *op);
  /// Whether the operation computes new values of optimizer states (nn.update,
  /// nn.advance_power), or launches a kernel that contains such an operation.
  bool isOptimizers(mlir::Operation *op);
  /// Whether the operation reads the state or bucket `name`, itself or through
  /// other operations of the optimizer.
  bool readsState(mlir::Operation *op, llvm::StringRef name);
  /// Whether the operation computes the copies `name`, a state or a bucket,
  /// from new values of their parameters.
  bool readsParametersOf(mlir::Operation *op, llvm::StringRef name);
  /// Whether the operation computes the state or bucket `name` from its old
  /// value or, if it is a copy, from its parameter's new one.
  bool computesFrom(mlir::Operation *op, llvm::StringRef name) {
    return readsState(op, name) || readsParametersOf(op, name);
  }
  std::optional<Update> updateOf(mlir::Operation *op);
  /// The parameters to which a state, or all members of a bucket, belong. Empty
  /// if any of these states is not of the kind `kind` (see `kindOf`).
  llvm::ArrayRef<llvm::StringRef> parametersOf(llvm::StringRef name,
                                               llvm::StringRef kind);
  /// The kind of a state, which tells the states of one parameter apart: for a
  /// state of the optimizer the optimizer's name for it, such as "exp_avg", for
  /// any other state its role, such as "gradient".
  llvm::StringRef kindOf(llvm::StringRef state);
  int64_t elementsOfState(llvm::StringRef name);
  /// The elements of states of the kind `kind` (see `kindOf`) from which
  /// `value` is read. The result has no parameters if the states are of another
  /// kind.
  StateRange rangeRead(mlir::Value value, llvm::StringRef kind);
  /// The elements of states of the kind `kind` to which `value` is written. The
  /// result has no parameters if the states are of another kind.
  StateRange rangeWritten(mlir::Value value, llvm::StringRef kind);

protected:
  mlir::SymbolTable symbols;

private:
  /// The offsets, in elements, of the members that an nn.pack or nn.unpack
  /// joins or splits. They are cached.
  llvm::ArrayRef<int64_t> offsetsIn(mlir::Operation *op,
                                    mlir::TypeRange members);

  // Cached results of `parametersOf` and `offsetsIn`. Without them,
  // verification of large models would be slow: a bucket holds states of all
  // layers, and many ranges of it are read and written.
  std::map<std::pair<llvm::StringRef, llvm::StringRef>,
           llvm::SmallVector<llvm::StringRef>>
      parameters;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int64_t>> offsets;

  /// The recursive part of the public function `rangeWritten`. It follows
  /// `value` through operations such as nn.pack to the operations that write it
  /// to states. `range` says which elements of `value` are those of the value
  /// with which the recursion began.
  StateRange rangeWritten(mlir::Value value, llvm::StringRef kind,
                          StateRange range);
};

} // namespace heddle::states

#endif // HEDDLE_LIB_TRANSFORMS_COMMON_UPDATES_H
