//===- UpdateOp.cpp - The operations nn.update, nn.advance_loss_scale -----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifier and costs of nn.update, the update of an optimizer, and the verifier
// of nn.advance_loss_scale, which says whether a step updates.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"
#include "dialects/NN/Scalars.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;

LogicalResult UpdateOp::verify() {
  RankedTensorType parameter = tensorOf(getParameter());
  auto verifyAlike = [&](Value value, StringRef what) -> LogicalResult {
    if (tensorOf(value).getShape() == parameter.getShape())
      return success();
    return emitOpError("has ") << what << " of type " << value.getType()
                               << ", the parameter has " << parameter;
  };
  if (failed(verifyAlike(getGradient(), "a gradient")))
    return failure();
  for (Value state : getStates())
    if (failed(verifyAlike(state, "a state")))
      return failure();
  for (Value input : getInputs())
    if (tensorOf(input).getRank() > 0 &&
        failed(verifyAlike(input, "an input that is no number")))
      return failure();
  if (Value condition = getCondition();
      condition && tensorOf(condition).getRank() > 0)
    return emitOpError("has a condition of type ")
           << condition.getType() << ", which is no number";
  size_t results = getOutputs().size(), needed = 1 + getStates().size();
  if (results != needed && results != needed + 1)
    return emitOpError("has ") << results << " results; " << needed
                               << " are the new parameter and states, and one "
                                  "more may be the copy";
  for (auto [number, output] : llvm::enumerate(getOutputs())) {
    if (failed(verifyAlike(output, "a result")))
      return failure();
    if (number < needed && !tensorOf(output).getElementType().isF32())
      return emitOpError("result #")
             << number << " must be f32, as parameters and states are, got "
             << output.getType();
  }
  return success();
}

LogicalResult UpdateOp::verifyRegions() {
  return verifyScalarBody(*this, getBody().front(),
                          2 + getStates().size() + getInputs().size(),
                          1 + getStates().size());
}

double UpdateOp::getFlops() {
  return flopsOf(getBody().front()) *
         static_cast<double>(tensorOf(getParameter()).getNumElements());
}

dist::ShardingRule UpdateOp::getShardingRule() {
  std::string letters = leadingLetters(tensorOf(getParameter()).getRank());
  SmallVector<std::string> operands, results(getNumResults(), letters);
  for (Value operand : getOperands())
    operands.push_back(tensorOf(operand).getRank() > 0 ? letters : "");
  return dist::buildRule(*this, operands, results);
}

LogicalResult AdvanceLossScaleOp::verify() {
  auto isNumber = [](Value value) { return tensorOf(value).getRank() == 0; };
  if (!llvm::all_of(getOperands(), isNumber) ||
      !llvm::all_of(getResults(), isNumber))
    return emitOpError("has an operand or a result that is no number");
  if (static_cast<int64_t>(getWindow()) < 0 ||
      static_cast<int64_t>(getHysteresis()) < 1)
    return emitOpError("has a negative window, or a hysteresis below 1");
  if (!(getLeast().convertToDouble() > 0))
    return emitOpError("has the least scale ")
           << getLeast().convertToDouble() << ", which must be positive";
  return success();
}
