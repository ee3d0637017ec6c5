//===- Norms.cpp - Norms of long gradients --------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Common/Norms.h"
#include "heddle/Transforms/Common/States.h"

using namespace mlir;
using namespace heddle;

bool heddle::splitNorm(nn::GlobalNormOp norm) {
  constexpr int64_t blockSize = nn::SquareSumsOp::blockSize;
  auto isLong = [](Value input) {
    return elementsOf(input.getType()) > blockSize;
  };
  if (norm.getSummed() || llvm::none_of(norm.getInputs(), isLong))
    return false;
  OpBuilder builder(norm);
  SmallVector<Value> sums;
  for (Value input : norm.getInputs()) {
    int64_t blocks = llvm::divideCeil(elementsOf(input.getType()), blockSize);
    auto type = RankedTensorType::get({blocks}, builder.getF32Type());
    sums.push_back(builder.create<nn::SquareSumsOp>(norm.getLoc(), type, input,
                                                    ArrayAttr()));
  }
  norm.getInputsMutable().assign(sums);
  norm.setSummed(true);
  return true;
}
