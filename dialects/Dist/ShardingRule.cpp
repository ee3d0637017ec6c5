//===- ShardingRule.cpp - How an operation may be split -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/ShardingRule.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace heddle::dist;

static std::string lettersOf(const ShardingRule &rule, ArrayRef<int64_t> dims) {
  std::string text = "[";
  for (auto [position, factor] : llvm::enumerate(dims))
    text += (position ? "," : "") + rule.factors[factor].name;
  return text + "]";
}

std::string ShardingRule::str() const {
  std::string text = "(";
  for (auto [index, dims] : llvm::enumerate(operands))
    text += (index ? "," : "") + lettersOf(*this, dims);
  text += ")->(";
  for (auto [index, dims] : llvm::enumerate(results))
    text += (index ? "," : "") + lettersOf(*this, dims);
  text += ") {";
  for (auto [index, factor] : llvm::enumerate(factors)) {
    text +=
        (index ? ", " : "") + factor.name + "=" + std::to_string(factor.size);
    if (factor.kind == FactorKind::Reduction)
      text += " reduction";
    if (factor.kind == FactorKind::Whole)
      text += " whole";
  }
  return text + "}";
}

ShardingRule heddle::dist::buildRule(Operation *op,
                                     ArrayRef<std::string> operands,
                                     ArrayRef<std::string> results,
                                     StringRef whole) {
  ShardingRule rule;
  auto indexOf = [&](char letter, int64_t size) {
    for (auto [index, factor] : llvm::enumerate(rule.factors))
      if (factor.name[0] == letter)
        return static_cast<int64_t>(index);
    rule.factors.push_back(
        {std::string(1, letter), size, FactorKind::Reduction});
    return static_cast<int64_t>(rule.factors.size()) - 1;
  };
  auto dimsOf = [&](Type type, StringRef letters) {
    SmallVector<int64_t> dims;
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor)
      for (auto [letter, size] : llvm::zip(letters, tensor.getShape()))
        dims.push_back(indexOf(letter, size));
    return dims;
  };
  for (auto [index, value] : llvm::enumerate(op->getOperands()))
    rule.operands.push_back(dimsOf(
        value.getType(), index < operands.size() ? operands[index] : ""));
  for (auto [index, value] : llvm::enumerate(op->getResults())) {
    rule.results.push_back(
        dimsOf(value.getType(), index < results.size() ? results[index] : ""));
    for (int64_t factor : rule.results.back())
      rule.factors[factor].kind = FactorKind::Parallel;
  }
  for (Factor &factor : rule.factors)
    if (whole.contains(factor.name))
      factor.kind = FactorKind::Whole;
  return rule;
}

LogicalResult heddle::dist::verifyRule(Operation *op,
                                       const ShardingRule &rule) {
  auto check = [&](ValueRange values, auto &lists,
                   StringRef what) -> LogicalResult {
    for (auto [index, value] : llvm::enumerate(values)) {
      auto tensor = dyn_cast<RankedTensorType>(value.getType());
      if (!tensor)
        continue;
      if (index >= lists.size() ||
          static_cast<int64_t>(lists[index].size()) != tensor.getRank())
        return op->emitOpError("sharding rule does not speak of every "
                               "dimension of ")
               << what << " " << index;
      for (auto [dim, factor] : llvm::enumerate(lists[index]))
        if (rule.factors[factor].size != tensor.getDimSize(dim))
          return op->emitOpError("sharding rule: factor ")
                 << rule.factors[factor].name << " has size "
                 << rule.factors[factor].size << " but dimension " << dim
                 << " of " << what << " " << index << " has "
                 << tensor.getDimSize(dim);
    }
    return success();
  };
  if (failed(check(op->getOperands(), rule.operands, "operand")))
    return failure();
  return check(op->getResults(), rule.results, "result");
}
