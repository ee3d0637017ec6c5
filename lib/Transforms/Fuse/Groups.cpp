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

bool fuse::sumsRows(Operation *op) {
  return generatorOf(op) == nn::Generator::Columns;
}

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static ArrayRef<int64_t> domainOf(Operation *op) {
  return fuse::sumsRows(op) ? shapeOf(op->getOperand(0))
                            : cast<nn::PropertiesOpInterface>(op).getDomain();
}

/// Why a kernel over rows may not hold these operations, of which some sum the
/// rows, or "".
static std::string refusalOfSums(ArrayRef<Operation *> ops,
                                 const codegen::FusionRules &rules) {
  if (!rules.sumsInRows)
    return "kernels over rows of this target sum none of them";
  int64_t sums = 0;
  for (Operation *op : ops)
    if (fuse::sumsRows(op))
      sums += op->getNumResults();
  int64_t columns = domainOf(ops.front()).back();
  auto counted = static_cast<int64_t>(llvm::PowerOf2Ceil(sums));
  return sums <= rules.sumsInRows && counted * columns <= rules.elementsOfSums
             ? ""
             : "there are too many sums of its columns";
}

/// Why a product may not be made beside another one.
static std::string refusalOfProduct(nn::PackedLinearOp op,
                                    nn::PackedLinearOp first,
                                    const codegen::FusionRules &rules) {
  if (!rules.joinsPackedProducts)
    return "products of this target have a kernel each";
  if (op.getInput() != first.getInput())
    return "it multiplies other rows";
  auto elementOf = [](Value value) {
    return value ? getElementTypeOrSelf(value.getType()) : Type();
  };
  bool isAlike = op.getPerWord() == first.getPerWord() &&
                 op.getGroups() == first.getGroups();
  for (auto [mine, others] : {std::pair(op.getWeight(), first.getWeight()),
                              std::pair(op.getScales(), first.getScales()),
                              std::pair(op.getZeros(), first.getZeros())})
    isAlike &= elementOf(mine) == elementOf(others);
  return isAlike ? "" : "its weight is packed in another way";
}

/// Whether an element-wise operation goes over the shape of all values of the
/// kernel that it reads. What a product sums beside has a shape of its own.
static bool goesOverOperands(Operation *op, ArrayRef<Operation *> members) {
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    Operation *producer = operand.getDefiningOp();
    return !producer || !llvm::is_contained(members, producer) ||
           (!isa<nn::SumRowsOp>(producer) &&
            domainOf(producer) == domainOf(op));
  });
}

std::string fuse::refusal(Operation *op, ArrayRef<Operation *> members,
                          const codegen::FusionRules &rules) {
  Operation *first = members.front();
  auto sum = dyn_cast<nn::SumRowsOp>(op);
  auto gradient = dyn_cast<nn::LinearGradWeightOp>(first);
  if (sum && gradient && sum.getInput() == gradient.getGrad())
    return refusalOfSum(sum, rules);
  auto packed = dyn_cast<nn::PackedLinearOp>(op);
  auto firstPacked = dyn_cast<nn::PackedLinearOp>(first);
  if (packed && firstPacked)
    return refusalOfProduct(packed, firstPacked, rules);
  nn::Generator generator = *generatorOf(first);
  bool isProduct = generator == nn::Generator::Gemm;
  if (!isProduct && generator != nn::Generator::Rows)
    return "its kernel (" + stringifyGenerator(generator).str() +
           ") takes no further operation";
  bool isSum = sumsRows(op) && !isProduct;
  if ((!op->hasTrait<nn::Rowwise>() && !isSum) ||
      (isProduct && !op->hasTrait<nn::Elementwise>()))
    return isProduct
               ? "only element-wise operations can be a product's epilogue"
               : "it does not go row by row";
  if (isProduct ? !goesOverOperands(op, members)
                : domainOf(op) != domainOf(first))
    return "it goes over another shape";
  SmallVector<Operation *> all(members);
  all.push_back(op);
  return !isProduct && llvm::any_of(all, sumsRows) ? refusalOfSums(all, rules)
                                                   : "";
}
