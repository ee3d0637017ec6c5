//===- Updates.h - What updates read and write ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_COMMON_UPDATES_H
#define HEDDLE_LIB_TRANSFORMS_COMMON_UPDATES_H

#include "heddle/Transforms/Common/States.h"
#include <map>

namespace heddle::states {

/// The state that a name stands for, or the first one of its bucket.
llvm::StringRef firstStateOf(const mlir::SymbolTable &symbols,
                             llvm::StringRef name);

/// Whether an operation makes of one value, as ranks exchange, split or sum it,
/// another one.
inline bool isExchange(mlir::Operation *op) {
  return llvm::isa<dist::DistDialect>(op->getDialect()) &&
         !llvm::isa<dist::FetchOp, dist::FetchRowsOp>(op) &&
         op->getNumOperands() == 1 && op->getNumResults() == 1;
}

/// The operation that a value, or what it is a part of, comes from, but for
/// exchanges; null for none.
inline mlir::Operation *makerOf(mlir::Value value) {
  mlir::Operation *op = value ? value.getDefiningOp() : nullptr;
  while (op && (isExchange(op) || llvm::isa<nn::UnpackOp>(op)))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

/// Those of all parts of what is packed.
inline llvm::SmallVector<mlir::Operation *> makersOf(mlir::Value value) {
  auto pack = llvm::dyn_cast_or_null<nn::PackOp>(makerOf(value));
  if (!pack)
    return {makerOf(value)};
  return llvm::map_to_vector(pack.getMembers(), makerOf);
}

/// Elements of the states of parameters, which stand side by side.
struct StateRange {
  llvm::SmallVector<llvm::StringRef> parameters; ///< Empty: of no such states.
  int64_t first = 0, count = 0, whole = 0;

  bool operator==(const StateRange &other) const {
    return parameters == other.parameters && first == other.first &&
           count == other.count && whole == other.whole;
  }
};

/// Where each member of a flat tensor begins.
inline llvm::SmallVector<int64_t> offsetsOf(mlir::TypeRange members) {
  llvm::SmallVector<int64_t> offsets;
  int64_t offset = 0;
  for (mlir::Type member : members) {
    offsets.push_back(offset);
    offset += nn::paddedElements(elementsOf(member));
  }
  return offsets;
}

/// What an update reads and writes: the operation, or the launch of a kernel
/// that has it.
struct Update {
  mlir::Operation *op = nullptr;
  /// Null: made inside of the kernel.
  mlir::Value parameter, gradient;
  llvm::SmallVector<mlir::Value> states;
  /// Null: not there.
  mlir::Value newParameter, copy;
  llvm::SmallVector<mlir::Value> newStates;
};

/// Follows the values of a model's updates to states, in all phases from train
/// on.
class UpdateReader {
public:
  explicit UpdateReader(nn::ModelOp model) : symbols(model) {}

  nn::StateRole roleOf(llvm::StringRef state);
  /// The parameter that a state is, or belongs to.
  llvm::StringRef parameterOf(llvm::StringRef name);
  /// The body of the kernel that an operation launches; null for others.
  mlir::Block *kernelOf(mlir::Operation *op);
  /// Whether it computes what the optimizer writes.
  bool isOptimizers(mlir::Operation *op);
  std::optional<Update> updateOf(mlir::Operation *op);
  /// The parameters that the states belong to which a value is read from, or is
  /// written to; nothing when they are not all of this kind: a role, or what
  /// the optimizer calls it.
  llvm::ArrayRef<llvm::StringRef> parametersOf(llvm::StringRef name,
                                               llvm::StringRef kind);
  llvm::StringRef kindOf(llvm::StringRef state);
  int64_t elementsOfState(llvm::StringRef name);
  /// What of the states of this kind a value is.
  StateRange rangeRead(mlir::Value value, llvm::StringRef kind);
  /// What of the states of this kind a value is written to.
  StateRange rangeWritten(mlir::Value value, llvm::StringRef kind);

protected:
  mlir::SymbolTable symbols;

private:
  /// Where each member of what an operation packs or unpacks begins.
  llvm::ArrayRef<int64_t> offsetsIn(mlir::Operation *op,
                                    mlir::TypeRange members);

  // What large models ask for again and again: a flat state has the states of
  // all layers, and is read and written by many windows.
  std::map<std::pair<llvm::StringRef, llvm::StringRef>,
           llvm::SmallVector<llvm::StringRef>>
      parameters;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int64_t>> offsets;

  /// `range` being what is known so far.
  StateRange rangeWritten(mlir::Value value, llvm::StringRef kind,
                          StateRange range);
};

} // namespace heddle::states

#endif // HEDDLE_LIB_TRANSFORMS_COMMON_UPDATES_H
