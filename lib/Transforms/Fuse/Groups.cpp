//===- Groups.cpp - What may be in one kernel -----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Groups.h"

using namespace mlir;
using namespace heddle;

DenseMap<Value, Value> fuse::tiesOf(Operation *op) {
  DenseMap<Value, Value> ties;
  for (nn::Tie tie : cast<nn::PropertiesOpInterface>(op).getTies()) {
    bool pays = true;
    switch (tie.worth) {
    case nn::Tie::Worth::Always:
      break;
    case nn::Tie::Worth::OfState:
      pays = tie.operand.getDefiningOp<nn::GetOp>() != nullptr;
      break;
    case nn::Tie::Worth::OfComputed:
      pays = !isa<BlockArgument>(tie.operand);
      break;
    }
    if (pays)
      ties[tie.result] = tie.operand;
  }
  return ties;
}

std::optional<nn::Generator> fuse::generatorOf(Operation *op) {
  if (auto lowering = dyn_cast<nn::LinalgLoweringOpInterface>(op))
    return lowering.getGenerator();
  return std::nullopt;
}

FailureOr<codegen::FusionRules> fuse::rulesOf(nn::ModelOp model) {
  FailureOr<const codegen::Target *> target = codegen::findTarget(model);
  if (failed(target))
    return failure();
  return (*target)->fusionRules(model.getStrategy().getValue());
}

/// Why a bias's gradient may not be summed by the product that is the weight's.
static std::string refusalOfSum(nn::SumRowsOp sum,
                                const codegen::FusionRules &rules) {
  if (!rules.sumsInProducts)
    return "products of this target sum none of what they multiply";
  if (sum.getInit() && !rules.sumsOntoInits)
    return "products of this target add such a sum to nothing";
  return "";
}

std::string fuse::refusal(Operation *op, Operation *first,
                          const codegen::FusionRules &rules) {
  auto sum = dyn_cast<nn::SumRowsOp>(op);
  auto gradient = dyn_cast<nn::LinearGradWeightOp>(first);
  if (sum && gradient && sum.getInput() == gradient.getGrad())
    return refusalOfSum(sum, rules);
  nn::Generator generator = *generatorOf(first);
  bool isProduct = generator == nn::Generator::Gemm;
  if (!isProduct && generator != nn::Generator::Rows)
    return "its kernel (" + stringifyGenerator(generator).str() +
           ") takes no further operation";
  if (!op->hasTrait<nn::Rowwise>() ||
      (isProduct && !op->hasTrait<nn::Elementwise>()))
    return isProduct
               ? "only element-wise operations can be a product's epilogue"
               : "it does not go row by row";
  return cast<nn::PropertiesOpInterface>(op).getDomain() ==
                 cast<nn::PropertiesOpInterface>(first).getDomain()
             ? ""
             : "it goes over another shape";
}
