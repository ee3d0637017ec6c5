//===- DistDialect.h - Where it is computed ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dialect dist: meshes, shardings, the strategy (the settings of the
// compilation), reshards, collectives and transfers between memories.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_DISTDIALECT_H
#define HEDDLE_DIALECTS_DIST_DISTDIALECT_H

#include "dialects/Dist/Mesh.h"
#include "dialects/Dist/ShardingRule.h"
#include "dialects/Dist/Strategy.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Dist/DistDialect.h.inc"

namespace heddle::dist {

/// Checks that each of `axes` is the name of a mesh axis and occurs once. Emits
/// an error on `op` if not.
mlir::LogicalResult verifyAxes(mlir::Operation *op, mlir::ArrayAttr axes);
/// Checks that `axis` is the name of a mesh axis. Emits an error on `op` if
/// not.
mlir::LogicalResult verifyAxis(mlir::Operation *op, llvm::StringRef axis);

/// Checks that only dist.wait uses the result of the pending operation `op`,
/// because the result is incomplete until dist.wait has run.
mlir::LogicalResult verifyPending(mlir::Operation *op);

} // namespace heddle::dist

#define GET_ATTRDEF_CLASSES
#include "dialects/Dist/DistAttrs.h.inc"

#define GET_OP_CLASSES
#include "dialects/Dist/DistOps.h.inc"

#endif // HEDDLE_DIALECTS_DIST_DISTDIALECT_H
