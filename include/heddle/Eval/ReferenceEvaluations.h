//===- ReferenceEvaluations.h - Registers evaluations -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers how the interpreter evaluates `nn` operations: through external
// models of ReferenceEvalOpInterface, so that the dialect does not depend on
// the interpreter.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_REFERENCEEVALUATIONS_H
#define HEDDLE_EVAL_REFERENCEEVALUATIONS_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace heddle::eval {

/// Attaches the reference evaluations of all `nn` operations that compute.
void registerReferenceEvaluations(mlir::DialectRegistry &registry);

} // namespace heddle::eval

#endif // HEDDLE_EVAL_REFERENCEEVALUATIONS_H
