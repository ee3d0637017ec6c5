//===- States.h - Who reads and writes states -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the verifiers of the phases from train on have in common.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_COMMON_STATES_H
#define HEDDLE_TRANSFORMS_COMMON_STATES_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle {

/// The elements of a tensor of that type.
inline int64_t elementsOf(mlir::Type tensor) {
  return llvm::cast<mlir::RankedTensorType>(tensor).getNumElements();
}

/// The states that a name stands for: a bucket's members, or the one state.
llvm::SmallVector<llvm::StringRef> statesOf(const mlir::SymbolTable &symbols,
                                            llvm::StringRef name);

/// The kind of memory in which the state lives, or the bucket's members do.
nn::MemoryKind memoryOf(const mlir::SymbolTable &symbols, llvm::StringRef name);

/// The parameters that computation reads copies of.
llvm::DenseSet<mlir::StringAttr> copiedIn(nn::ModelOp model);

/// Whether the name of a parameter is one that is meant: its own, or those of
/// all tensors of the files that it is made of.
bool isNamed(nn::StateOp parameter,
             llvm::function_ref<bool(llvm::StringRef)> isMeant);

/// Whether it writes the state of a cache.
bool writesCache(mlir::Operation *op);

/// Checks the states of a model, and who reads and writes them in its steps:
/// what belongs to a parameter has the name by which passes find it; gradients,
/// sums and saved values are written before they are read; nothing is written
/// over unread; parameters and their moments are written by the optimizer,
/// which updates each trainable one once, and reads what belongs to it; caches
/// are written with what is made of them; as
/// verifyGradientsBegin. Errors
/// begin with `code`.
mlir::LogicalResult verifyStates(nn::ModelOp model, llvm::StringRef code);

/// Checks that a gradient that is filled, also by a kernel, begins with 0:
/// every rank would add another value to the sum. Errors begin with `code`.
mlir::LogicalResult verifyGradientsBegin(nn::ModelOp model,
                                         llvm::StringRef code);

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_STATES_H
