//===- ReferenceEvaluations.cpp - Registers evaluations -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/ReferenceEvaluations.h"

#include "heddle/Eval/ReferenceOps.h"

using namespace mlir;

void heddle::eval::registerReferenceEvaluations(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, nn::NNDialect *) {
    attachElementwiseEvaluations(*context);
    attachLinearEvaluations(*context);
    attachNormEvaluations(*context);
    attachAttentionEvaluations(*context);
    attachCacheEvaluations(*context);
    attachLossEvaluations(*context);
    attachOptimizerEvaluations(*context);
    attachSignEvaluations(*context);
    attachGroupEvaluations(*context);
  });
}
