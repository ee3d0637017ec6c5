//===- ForwardFunction.cpp - What programs are derived from ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ForwardFunction.h"

using namespace mlir;
using namespace heddle;
using dist::FactorRole;
using nn::PortRole;

LogicalResult heddle::verifyForward(nn::FuncOp forward) {
  constexpr StringLiteral code = "H0358: ";
  auto refuse = [&](const Twine &what, const Twine &help) {
    InFlightDiagnostic error = forward.emitError(code)
                               << "the forward function " << what;
    error.attachNote() << "help: " << help;
    return error;
  };
  auto outputs = forward.getOutputs();
  auto logits = forward.getResultTypes().empty()
                    ? RankedTensorType()
                    : dyn_cast<RankedTensorType>(forward.getResultTypes()[0]);
  if (!outputs || outputs->size() != 1 || !logits || logits.getRank() != 3 ||
      cast<nn::PortAttr>((*outputs)[0]).getRole() != PortRole::Logits)
    return refuse("must give the logits alone, [1, tokens, vocabulary]",
                  "return them, with outputs = [#nn.port<logits>]");
  unsigned ids = 0;
  for (auto [attribute, type] :
       llvm::zip(*forward.getInputs(), forward.getArgumentTypes())) {
    auto port = cast<nn::PortAttr>(attribute);
    PortRole role = port.getRole();
    ids += role == PortRole::Ids;
    if (role == PortRole::Rng || role == PortRole::MicroBatch)
      continue;
    SmallVector<int64_t> shape = {1};
    if (port.isOfTokens())
      shape.push_back(logits.getDimSize(1));
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!port.isOfBatch() || role == PortRole::Labels ||
        role == PortRole::LabelWeights)
      return refuse("has an argument \"" + port.getKey() +
                        "\", which is none of a forward pass",
                    "leave it out; ids, positions, segments, lengths, rng and "
                    "micro_batch are possible");
    if (!tensor || tensor.getShape() != ArrayRef<int64_t>(shape))
      return refuse("has an argument \"" + port.getKey() +
                        "\" that is not of one row of the logits' tokens",
                    port.isOfTokens()
                        ? "write it as tensor<1x" +
                              Twine(logits.getDimSize(1)) + "x...>"
                        : Twine("write it as tensor<1x...>"));
  }
  if (ids != 1 || logits.getDimSize(0) != 1)
    return refuse("must be written for one row of ids",
                  "give it one argument of type tensor<1xTxi32>, with "
                  "inputs = [#nn.port<ids>]");
  return success();
}

Value heddle::logitsOf(nn::FuncOp forward) {
  return forward.getBody().front().getTerminator()->getOperand(0);
}

Value heddle::hiddenOf(nn::FuncOp forward) {
  for (auto keep : forward.getBody().front().getOps<nn::KeepOp>())
    if (keep.getPath() == nn::stringifyPortRole(PortRole::Hidden))
      return keep.getValue();
  return {};
}

bool heddle::dropsOut(Operation *op) {
  if (auto attention = dyn_cast<nn::AttentionOp>(op))
    return attention.getRng() != nullptr;
  return isa<nn::DropoutOp>(op);
}

/// Whether a value has a dimension of tokens. For each dimension of the value,
/// `dims` has an index into `rule.factors`.
static bool hasTokens(const dist::ShardingRule &rule, ArrayRef<int64_t> dims) {
  return llvm::any_of(dims, [&](int64_t factor) {
    return factor >= 0 && rule.factors[factor].role == FactorRole::Tokens;
  });
}

Head heddle::findHead(nn::FuncOp forward) {
  Head head;
  Block &body = forward.getBody().front();
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    auto ruled = dyn_cast<nn::ShardingRuleOpInterface>(op);
    bool ends = llvm::all_of(op.getUsers(), [&](Operation *user) {
      return user == body.getTerminator() || head.operations.contains(user) ||
             isa<nn::KeepOp>(user);
    });
    if (!ruled || !ends || op.hasTrait<nn::MixesPositions>() || dropsOut(&op) ||
        op.getNumOperands() == 0)
      continue;
    dist::ShardingRule rule = ruled.getShardingRule();
    bool takes = true;
    SmallVector<Value> tokens;
    for (auto [operand, dims] : llvm::zip(op.getOperands(), rule.operands)) {
      if (!hasTokens(rule, dims))
        continue;
      auto type = cast<RankedTensorType>(operand.getType());
      takes &= type.getRank() == 3 && isa<FloatType>(type.getElementType());
      tokens.push_back(operand);
    }
    if (!takes || !hasTokens(rule, rule.results.front()))
      continue;
    head.operations.insert(&op);
    head.inputs.insert(tokens.begin(), tokens.end());
  }
  if (head.operations.empty())
    head.inputs.insert(logitsOf(forward));
  llvm::SmallVector<Value> inputs(head.inputs.begin(), head.inputs.end());
  for (Value input : inputs)
    if (head.operations.contains(input.getDefiningOp()))
      head.inputs.erase(input);
  return head;
}

bool heddle::generates(nn::FuncOp forward) {
  for (auto port : forward.getInputs()->getAsRange<nn::PortAttr>())
    if (port.isOfBatch() && port.getRole() != PortRole::Ids)
      return false;
  auto model = forward->getParentOfType<nn::ModelOp>();
  return !predictsMasked(model) && !seesWhatFollows(model);
}

bool heddle::predictsMasked(nn::ModelOp model) {
  auto objective = model.getWeights().getAs<nn::ObjectiveAttr>("objective");
  return objective && objective.getValue() == nn::Objective::MaskedToken;
}

bool heddle::seesWhatFollows(nn::ModelOp model) {
  WalkResult walk = model.walk([](nn::AttentionOp attention) {
    return attention.getMask().isCausal() ? WalkResult::advance()
                                          : WalkResult::interrupt();
  });
  return walk.wasInterrupted();
}
