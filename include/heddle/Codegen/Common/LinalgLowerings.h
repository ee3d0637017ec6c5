//===- LinalgLowerings.h - Lowers nn operations to linalg -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions that lower the nn operations in the body of a kernel to linalg,
// before code generation. Operations for which the kernel's code generator has
// its own algorithm are not lowered.
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
/// the dialects of the operations that the lowerings build.
void registerLinalgLowerings(mlir::DialectRegistry &registry);

/// What to do with operations for which a code generator has an algorithm of
/// its own, such as products and attention.
enum class WholeOps {
  Stay,  ///< Leave them to the generator.
  Lower, ///< Lower them to plain loops, which are correct but slow.
};

/// Replaces an nn operation by linalg on tensors and returns the new results.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerToLinalg(mlir::Operation *op);

/// Replaces the nn operations of a kernel's body by linalg on tensors.
mlir::LogicalResult lowerBodyToLinalg(mlir::Block &body,
                                      WholeOps whole = WholeOps::Stay);

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_LINALGLOWERINGS_H
