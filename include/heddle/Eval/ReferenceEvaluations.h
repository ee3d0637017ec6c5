//===- ReferenceEvaluations.h - Registration of all evaluations -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_REFERENCEEVALUATIONS_H
#define HEDDLE_EVAL_REFERENCEEVALUATIONS_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace heddle::eval {

/// Gives every computation of the nn dialect its reference evaluation, as an
/// external model of ReferenceEvalOpInterface.
void registerReferenceEvaluations(mlir::DialectRegistry &registry);

} // namespace heddle::eval

#endif // HEDDLE_EVAL_REFERENCEEVALUATIONS_H
