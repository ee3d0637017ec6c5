//===- Verify.cpp - What the model phase promises -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NormWeights.h"
#include "dialects/Dist/Wire.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Common/VerifyPass.h"
#include "heddle/Transforms/Model/Passes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_MODELVERIFY
#include "include/heddle/Transforms/Model/Passes.h.inc"
} // namespace heddle

namespace {

struct Verify : VerifyPass<heddle::impl::ModelVerifyBase, Verify> {
  LogicalResult verify(nn::ModelOp model) {
    const dist::Strategy &strategy = model.getStrategy().getValue();
    llvm::StringSet<> read;
    auto verifyOne = [&](Operation *op) -> LogicalResult {
      if (auto get = dyn_cast<nn::GetOp>(op))
        read.insert(get.getState());
      // An operation without a derivative may only be in a backward pass,
      // unless it is a constant or has the trait InForward. An example with
      // this trait is nn.take_row, which is used only for inference.
      bool backward = isa<nn::StepOp, nn::SetOp>(op) && !writesCache(op);
      if (auto compute = dyn_cast<nn::DifferentiableOpInterface>(op))
        backward |= !compute.getNotDifferentiableReason().empty() &&
                    !op->hasTrait<nn::InForward>() && op->getNumOperands() > 0;
      if (backward)
        return op->emitError(
            "H0908: the model phase holds forward functions only");
      if (failed(verifyLayoutOf(op)))
        return failure();
      return verifyPrecision(op, strategy);
    };
    if (failed(verifyEach<Operation *>(model, verifyOne)))
      return failure();
    bool hasCopies = dist::computeType(strategy.precision).isNarrow() &&
                     strategy.mode == config::Mode::Train;
    nn::StateRole role =
        hasCopies ? nn::StateRole::Derived : nn::StateRole::Parameter;
    for (auto state : model.getOps<nn::StateOp>())
      if (state.getRole() == role && !read.contains(state.getSymName()))
        return state.emitError("H0908: no function reads this parameter");
    return success();
  }

  /// Checks that a layout of attention has a row for each block of queries.
  LogicalResult verifyLayoutOf(Operation *op) {
    auto attention = dyn_cast<nn::AttentionOpInterface>(op);
    if (!attention || !attention.getLayout())
      return success();
    int64_t positions = nn::tensorOf(attention.getQkv()[0]).getDimSize(1);
    int64_t blocks = nn::tensorOf(attention.getLayout()).getDimSize(1);
    int64_t block = attention.getMask().getBlock();
    if (positions <= blocks * block)
      return success();
    return op->emitError("H0143: attends over ")
           << positions << " positions, but its layout has " << blocks
           << " blocks of " << block;
  }

  /// The first result of a computation is an activation, so it must have the
  /// compute precision. Losses are f32, and so are other results (statistics,
  /// such as the mean of a row) and computed weights of norms. A cast may have
  /// any type.
  LogicalResult verifyPrecision(Operation *op, const dist::Strategy &strategy) {
    auto properties = dyn_cast<nn::PropertiesOpInterface>(op);
    if (!properties || isa<nn::CastOp>(op) || properties.staysF32(0) ||
        isNormWeight(op))
      return success();
    Type element =
        cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
    if (op->hasTrait<nn::InForward>() && !properties.getTies().empty())
      return success(); // The result has the type of the overwritten operand.
    bool right =
        !isa<FloatType>(element) ||
        element == dist::computeType(strategy, Builder(op->getContext()));
    if (right)
      return success();
    return op->emitError("H0908: computes in ")
           << element << ", the strategy's precision is "
           << wordOf(strategy.precision);
  }
};

} // namespace
