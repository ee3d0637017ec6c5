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

std::string fuse::refusal(Operation *op, nn::Generator generator,
                          ArrayRef<int64_t> domain) {
  bool isProduct = generator == nn::Generator::Gemm;
  if (!isProduct && generator != nn::Generator::Rows)
    return "its kernel (" + stringifyGenerator(generator).str() +
           ") takes no further operation";
  if (!op->hasTrait<nn::Rowwise>() ||
      (isProduct && !op->hasTrait<nn::Elementwise>()))
    return isProduct
               ? "only element-wise operations can be a product's epilogue"
               : "it does not go row by row";
  return cast<nn::PropertiesOpInterface>(op).getDomain() == domain
             ? ""
             : "it goes over another shape";
}
