//===- SplitSums.cpp - Splits the accumulation of bias gradients ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `fuse-split-sums`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "Groups.h"
#include "heddle/Transforms/Fuse/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_FUSESPLITSUMS
#include "include/heddle/Transforms/Fuse/Passes.h.inc"
} // namespace heddle

namespace {
struct SplitSums : heddle::impl::FuseSplitSumsBase<SplitSums> {
  using Base::Base;

  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    FailureOr<codegen::FusionRules> rules = fuse::rulesOf(model);
    if (failed(rules))
      return signalPassFailure();
    if (!rules->sumsInProducts || rules->sumsOntoInits ||
        rules->vectorSums == 0 || rules->policy != config::Fusion::Deep)
      return;
    model.walk([&](nn::SumRowsOp sum) {
      if (sum.getInit() && staysExact(sum) && isMultiplied(sum))
        split(sum);
    });
  }

private:
  /// Whether splitting does not change the rounding. `split` makes two
  /// operations: one sums the rows, the other adds this sum to the initial
  /// value. Storing the first sum in f32 does not round it, because sums are
  /// computed in f32. In another type, both results would be rounded.
  static bool staysExact(nn::SumRowsOp sum) {
    return getElementTypeOrSelf(sum.getOutput()).isF32();
  }

  /// Whether the rows that are summed are also an operand of the matrix product
  /// that computes a weight's gradient, in the same MLIR block as the sum.
  static bool isMultiplied(nn::SumRowsOp sum) {
    return llvm::any_of(sum.getInput().getUsers(), [&](Operation *user) {
      auto product = dyn_cast<nn::LinearGradWeightOp>(user);
      return product && product.getGrad() == sum.getInput() &&
             product->getBlock() == sum->getBlock();
    });
  }

  void split(nn::SumRowsOp sum) {
    OpBuilder builder(sum);
    Value rows = builder.create<nn::SumRowsOp>(
        sum.getLoc(), sum.getType(), sum.getInput(), Value(), ArrayAttr());
    sum.getInputMutable().assign(rows);
    ++numSplit;
  }
};
} // namespace
