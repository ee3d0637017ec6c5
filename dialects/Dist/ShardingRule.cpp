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

bool heddle::dist::canSplit(const Factor &factor, int64_t parts) {
  if (parts == 1)
    return true;
  if (factor.kind == FactorKind::Whole)
    return false;
  if (!factor.units.empty())
    return factor.size % parts == 0;
  return parts <= factor.size;
}

int64_t heddle::dist::largestSplit(const Factor &factor, int64_t limit) {
  int64_t parts = limit;
  while (parts > 1 && !canSplit(factor, parts))
    --parts;
  return parts;
}

static ArrayRef<int64_t> find(ArrayRef<ShardingRule::Segments> all,
                              unsigned value, unsigned dim) {
  for (const ShardingRule::Segments &segments : all)
    if (segments.value == value && segments.dim == dim)
      return segments.sizes;
  return {};
}

ArrayRef<int64_t> ShardingRule::segmentsOfOperand(unsigned operand,
                                                  unsigned dim) const {
  return find(operandSegments, operand, dim);
}

ArrayRef<int64_t> ShardingRule::segmentsOfResult(unsigned result,
                                                 unsigned dim) const {
  return find(resultSegments, result, dim);
}

int64_t ShardingRule::indexOf(StringRef name) const {
  for (auto [index, factor] : llvm::enumerate(factors))
    if (factor.name == name)
      return index;
  return -1;
}

int64_t ShardingRule::indexOf(FactorRole role) const {
  for (auto [index, factor] : llvm::enumerate(factors))
    if (factor.role == role)
      return index;
  return -1;
}

void ShardingRule::setUnits(FactorRole role, int64_t size, StringRef units) {
  Factor &factor = factors[indexOf(role)];
  factor.size = size;
  factor.units = units;
}

bool ShardingRule::keepsFeatures(unsigned operand) const {
  if (operand >= operands.size() || operands[operand].empty() ||
      results.empty() || results[0].empty())
    return false;
  int64_t factor = operands[operand].back();
  return factor == results[0].back() &&
         factors[factor].kind == FactorKind::Parallel;
}

ArrayAttr Split::axesOf(FactorRole role) const {
  int64_t index = rule.indexOf(role);
  return index < 0 || axes[index].empty() ? ArrayAttr() : axes[index];
}

int64_t Split::partsOf(FactorRole role) const {
  return parts[rule.indexOf(role)];
}

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
    if (!factor.units.empty())
      text += " " + factor.units;
    if (factor.kind == FactorKind::Reduction)
      text += " reduction";
    if (factor.kind == FactorKind::Combined)
      text += " combined";
    if (factor.kind == FactorKind::Whole)
      text += " whole";
  }
  return text + "}";
}

static FactorRole roleOf(char letter) {
  switch (letter) {
  case 'b':
    return FactorRole::Rows;
  case 't':
    return FactorRole::Tokens;
  case 'h':
    return FactorRole::Heads;
  case 'c':
  case 'i':
  case 'o':
    return FactorRole::Features;
  case 'v':
    return FactorRole::Vocabulary;
  default:
    return FactorRole::Other;
  }
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
    rule.factors.push_back({std::string(1, letter),
                            size,
                            FactorKind::Reduction,
                            {},
                            roleOf(letter)});
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

/// Checks that a dimension of `size` elements agrees with its factor, the group
/// of dimensions that must be split alike. `what` names the dimension in
/// errors.
static LogicalResult verifyDim(Operation *op, const Factor &factor,
                               ArrayRef<int64_t> segments, int64_t size,
                               const Twine &what) {
  int64_t sum = 0;
  for (int64_t segment : segments)
    sum += segment;
  if (!segments.empty() && sum != size)
    return op->emitOpError("sharding rule: segments of ")
           << what << " have " << sum << " elements, it has " << size;
  if (factor.units.empty() && factor.size != size)
    return op->emitOpError("sharding rule: factor ")
           << factor.name << " has size " << factor.size << " but " << what
           << " has " << size;
  if (factor.units.empty())
    return success();
  for (int64_t piece : segments.empty() ? ArrayRef(size) : segments)
    if (piece % factor.size)
      return op->emitOpError("sharding rule: ")
             << piece << " elements of " << what << " are not " << factor.size
             << " " << factor.units;
  return success();
}

LogicalResult heddle::dist::verifyRule(Operation *op,
                                       const ShardingRule &rule) {
  auto check = [&](ValueRange values, auto &lists,
                   ArrayRef<ShardingRule::Segments> segments,
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
        if (failed(verifyDim(op, rule.factors[factor],
                             find(segments, index, dim), tensor.getDimSize(dim),
                             "dimension " + Twine(dim) + " of " + what + " " +
                                 Twine(index))))
          return failure();
    }
    return success();
  };
  if (failed(check(op->getOperands(), rule.operands, rule.operandSegments,
                   "operand")))
    return failure();
  return check(op->getResults(), rule.results, rule.resultSegments, "result");
}
