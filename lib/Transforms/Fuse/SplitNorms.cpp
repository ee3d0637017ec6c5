//===- SplitNorms.cpp - Gives long norms to all threads -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Fuse/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_FUSESPLITNORMS
#include "include/heddle/Transforms/Fuse/Passes.h.inc"
} // namespace heddle

namespace {
struct SplitNorms : heddle::impl::FuseSplitNormsBase<SplitNorms> {
  using Base::Base;

  void runOnOperation() override {
    getOperation().walk([&](nn::GlobalNormOp norm) {
      if (!norm.getSummed() && isLong(norm))
        split(norm);
    });
  }

private:
  static constexpr int64_t blockSize = nn::SquareSumsOp::blockSize;

  static int64_t sizeOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getNumElements();
  }

  /// Whether more threads than one have something to do.
  static bool isLong(nn::GlobalNormOp norm) {
    return llvm::any_of(norm.getInputs(),
                        [](Value input) { return sizeOf(input) > blockSize; });
  }

  void split(nn::GlobalNormOp norm) {
    OpBuilder builder(norm);
    SmallVector<Value> sums;
    for (Value input : norm.getInputs()) {
      int64_t blocks = (sizeOf(input) + blockSize - 1) / blockSize;
      auto type = RankedTensorType::get({blocks}, builder.getF32Type());
      sums.push_back(builder.create<nn::SquareSumsOp>(norm.getLoc(), type,
                                                      input, ArrayAttr()));
    }
    norm.getInputsMutable().assign(sums);
    norm.setSummed(true);
    ++numSplit;
  }
};
} // namespace
