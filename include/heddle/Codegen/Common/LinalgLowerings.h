//===- LinalgLowerings.h - nn operations as linalg --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_LINALGLOWERINGS_H
#define HEDDLE_CODEGEN_COMMON_LINALGLOWERINGS_H

#include "mlir/IR/Block.h"
#include "mlir/Support/LLVM.h"

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace heddle::codegen {

/// Attaches LinalgLoweringOpInterface to every nn computation, and registers
/// the dialects that the lowerings make.
void registerLinalgLowerings(mlir::DialectRegistry &registry);

/// Replaces the nn operations of a kernel's body by linalg on tensors. Those
/// whose generator takes them whole stay as they are.
mlir::LogicalResult lowerBodyToLinalg(mlir::Block &body);

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_LINALGLOWERINGS_H
