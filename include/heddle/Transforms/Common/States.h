//===- States.h - Who reads and writes states -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions that look up states of a model (parameters, gradients, moments and
// others), and checks of states. The verifiers of the phase `train` and of all
// later phases share these checks.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_COMMON_STATES_H
#define HEDDLE_TRANSFORMS_COMMON_STATES_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle {

/// The number of elements of a tensor type.
inline int64_t elementsOf(mlir::Type tensor) {
  return llvm::cast<mlir::RankedTensorType>(tensor).getNumElements();
}

/// Returns the names of the states that `name` denotes: the members if
/// `name` is a bucket, otherwise `name` alone.
llvm::SmallVector<llvm::StringRef> statesOf(const mlir::SymbolTable &symbols,
                                            llvm::StringRef name);

/// Returns the kind of memory that holds the state `name`, or the members of
/// the bucket `name`.
nn::MemoryKind memoryOf(const mlir::SymbolTable &symbols, llvm::StringRef name);

/// The location of what treats the states as one tensor: that of the state, if
/// it is one, or else the innermost module that has all of them.
mlir::Location locationOf(llvm::ArrayRef<nn::StateOp> states);

/// The names of parameters that have a copy in compute precision. Layers read
/// the copy instead of the parameter.
llvm::DenseSet<mlir::StringAttr> copiedIn(nn::ModelOp model);

/// Whether `isMeant` returns true for a parameter's own name, or for the names
/// of all tensors in the weight files from which the parameter is made. For
/// example, `isMeant` compares a name with a pattern that the user wrote.
bool isNamed(nn::StateOp parameter,
             llvm::function_ref<bool(llvm::StringRef)> isMeant);

/// Erases each read of a state (nn.get) in `root` if nothing uses the value.
void eraseUnusedReads(mlir::Operation *root);

/// Whether the operation writes a state of a key-value cache.
bool writesCache(mlir::Operation *op);

/// Checks the states of a model, and their reads and writes in its steps:
/// - the states of a parameter have the names by which passes look for them;
/// - gradients, accumulators and saved values are written before they are read,
///   and are read before they are overwritten;
/// - only the optimizer writes parameters and moments, and only the optimizer
///   reads moments;
/// - the optimizer updates each trainable parameter once;
/// - the value that is written to a cache is computed from the cache's old
///   value;
/// - gradients start at 0, as verifyGradientsBegin checks.
///
/// Errors begin with `code`.
mlir::LogicalResult verifyStates(nn::ModelOp model, llvm::StringRef code);

/// Checks that a gradient which an operation or a kernel fills with a constant
/// starts at 0. Gradients are summed over ranks, so any other value would be
/// added once per rank. Errors begin with `code`.
mlir::LogicalResult verifyGradientsBegin(nn::ModelOp model,
                                         llvm::StringRef code);

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_STATES_H
