//===- Collectives.h - Collectives as the plan describes them ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_MEMORY_COLLECTIVES_H
#define HEDDLE_LIB_TRANSFORMS_MEMORY_COLLECTIVES_H

#include "dialects/Dist/DistDialect.h"
#include "heddle/PlanFormat/Collective.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle::memory {

/// Whether the operation is a collective of the dist dialect.
bool isCollective(mlir::Operation *op);

/// Converts a collective of the dist dialect to the description that plan and
/// runtime share: kind, types, ranks, and layout of the ranks' parts.
plan::CollectiveShape shapeOf(mlir::Operation *op,
                              const mlir::SymbolTable &symbols);

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_COLLECTIVES_H
