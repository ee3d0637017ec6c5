//===- HostValues.h - Values in the host's memory ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_COMMON_HOSTVALUES_H
#define HEDDLE_TRANSFORMS_COMMON_HOSTVALUES_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle {

/// Whether the host's cores can access memory of that kind.
inline bool isHostMemory(nn::MemoryKind kind) {
  return kind == nn::MemoryKind::Host || kind == nn::MemoryKind::Pinned;
}

/// Whether a value of a step is in the host's memory. This is true if the value
/// was read from a state in host memory, if dist.move copied it to the host, or
/// if an update on the host computed it. The answer is valid from the spmd
/// phase on.
bool isOnHost(mlir::Value value, const mlir::SymbolTable &symbols);

/// Whether the host's cores compute the update: all its operands are in the
/// host's memory.
bool runsOnHost(nn::UpdateOp update, const mlir::SymbolTable &symbols);

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_HOSTVALUES_H
