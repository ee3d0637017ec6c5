//===- Groups.cpp - Rules for which operations share a kernel -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Groups.h"
#include "dialects/NN/Conditions.h"
#include "dialects/NN/HeadColumns.h"
#include "heddle/Settings/Groups.h"

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
  const dist::Strategy &strategy = model.getStrategy().getValue();
  codegen::FusionRules rules = (*target)->fusionRules(strategy);
  rules.policy = strategy.fusion;
  rules.joinsPackedProducts &= rules.policy == config::Fusion::Deep;
  rules.columnsInRows &= rules.policy != config::Fusion::None;
  if (rules.policy != config::Fusion::Deep)
    rules.queriesOfCacheWrites = 0;
  return rules;
}

nn::Generator fuse::generatorOf(ArrayRef<Operation *> members) {
  for (nn::Generator one :
       {nn::Generator::Gemm, nn::Generator::Attention, nn::Generator::Cache})
    for (Operation *op : members)
      if (generatorOf(op) == one)
        return one;
  return *generatorOf(members.front());
}

/// Returns the reason why the product that computes the gradient of a weight
/// cannot also compute the gradient of the bias (`sum`). The text is empty if
/// the product can.
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

bool fuse::isOfColumns(Operation *op, const codegen::FusionRules &rules) {
  if (!rules.columnsInRows || !op->hasTrait<nn::Elementwise>() ||
      op->getNumResults() != 1 || op->use_empty())
    return false;
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  return type.getRank() == 1 && llvm::all_of(op->getUsers(), [](auto *user) {
           return user->template hasTrait<nn::Rowwise>() && !sumsRows(user);
         });
}

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

bool fuse::sumsVector(Operation *op) {
  auto sum = dyn_cast<nn::SumRowsOp>(op);
  return sum && sum.getInit() && shapeOf(sum.getInput()).size() == 1;
}

static ArrayRef<int64_t> domainOf(Operation *op) {
  return fuse::sumsRows(op) ? shapeOf(op->getOperand(0))
                            : cast<nn::PropertiesOpInterface>(op).getDomain();
}

/// Returns the reason why a row-wise kernel cannot compute these operations,
/// some of which are sums over rows; empty if it can.
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

/// Returns the reason why two matrix products with packed (for example,
/// quantized) weights cannot share a kernel; empty if they can.
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
                 op.getGroups() == first.getGroups() &&
                 op.getInputBlock() == first.getInputBlock();
  for (auto [mine, others] : {std::pair(op.getWeight(), first.getWeight()),
                              std::pair(op.getScales(), first.getScales()),
                              std::pair(op.getZeros(), first.getZeros())})
    isAlike &= elementOf(mine) == elementOf(others);
  return isAlike ? "" : "its weight is packed in another way";
}

/// Whether the operation works on attention heads.
static bool isOnHeads(Operation *op) { return nn::headColumnsOf(op) > 0; }

/// The first matrix product with a packed (for example, quantized) weight among
/// `members`; null if there is none.
static nn::PackedLinearOp packedIn(ArrayRef<Operation *> members) {
  for (Operation *op : members)
    if (auto packed = dyn_cast<nn::PackedLinearOp>(op))
      return packed;
  return {};
}

/// Returns the reason why a matrix product cannot share a kernel with the
/// row-wise operations that compute its input, for example a norm. The text is
/// empty if the product can.
static std::string refusalOfPrologue(nn::PackedLinearOp product,
                                     ArrayRef<Operation *> members,
                                     const codegen::FusionRules &rules) {
  if (rules.rowsOfPrologues == 0)
    return "products of this target multiply rows that are there";
  ArrayRef<int64_t> shape = shapeOf(product.getInput());
  int64_t rows = 1;
  for (int64_t size : shape.drop_back())
    rows *= size;
  if (rows > rules.rowsOfPrologues)
    return "the product has " + std::to_string(rows) + " rows, more than " +
           std::to_string(rules.rowsOfPrologues);
  if (llvm::any_of(members, fuse::sumsRows) ||
      domainOf(members.front()) != shape)
    return "it goes over another shape";
  // A row-wise kernel can return only whole rows, not statistics such as a
  // mean. So check the values that are used outside of the kernel.
  for (Operation *op : members)
    for (Value result : op->getResults())
      for (Operation *user : result.getUsers())
        if (!llvm::is_contained(members, user) && shapeOf(result) != shape)
          return "what it makes beside rows is used elsewhere";
  return rules.refusalOfPrologue ? rules.refusalOfPrologue(product, members)
                                 : "";
}

/// Returns the reason why an operation on attention heads cannot follow a
/// matrix product in the product's kernel; empty if it can.
static std::string refusalOfHeads(Operation *op, nn::PackedLinearOp product,
                                  ArrayRef<Operation *> members,
                                  const codegen::FusionRules &rules) {
  if (!rules.headsInPackedProducts)
    return "products of this target end with elements";
  for (Operation *member : members)
    if (isOnHeads(member) && nn::headColumnsOf(member) != nn::headColumnsOf(op))
      return "its heads have another width";
  ArrayRef<int64_t> rows = domainOf(product).drop_back();
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    bool hasRows = type && type.getRank() == int64_t(rows.size()) + 1 &&
                   type.getShape().drop_back() == rows;
    bool hasHeads =
        type && op->hasTrait<nn::Rowwise>() && type.getShape() == domainOf(op);
    if ((hasRows || hasHeads) &&
        !llvm::is_contained(members, operand.getDefiningOp()))
      return "it reads rows that this kernel does not make";
  }
  return "";
}

/// Returns the reason why an element-wise operation cannot be the epilogue of a
/// matrix product; empty if it can. The operation must have the same shape as
/// those of its operands that the kernel computes.
static std::string refusalOfEpilogue(Operation *op,
                                     ArrayRef<Operation *> members) {
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (!producer || !llvm::is_contained(members, producer))
      continue;
    if (isOnHeads(producer))
      return "what it reads is made of whole heads";
    if (isa<nn::SumRowsOp>(producer) || domainOf(producer) != domainOf(op))
      return "it goes over another shape";
  }
  return "";
}

/// Returns the reason why an operation cannot follow a matrix product in the
/// product's kernel; empty if it can.
static std::string refusalAfterProduct(Operation *op,
                                       ArrayRef<Operation *> members,
                                       const codegen::FusionRules &rules) {
  nn::PackedLinearOp packed = packedIn(members);
  if (packed && isOnHeads(op))
    return refusalOfHeads(op, packed, members, rules);
  if (!op->hasTrait<nn::Elementwise>())
    return "only element-wise operations can be a product's epilogue";
  return refusalOfEpilogue(op, members);
}

/// Returns the reason why the option --fusion forbids the operation in a kernel
/// with the operations `members`; empty if it does not.
static std::string refusalOfPolicy(Operation *op, ArrayRef<Operation *> members,
                                   const codegen::FusionRules &rules) {
  if (rules.policy == config::Fusion::None)
    return "--fusion none gives every operation a kernel";
  bool isGeneric = rules.policy == config::Fusion::Generic;
  if (isGeneric && (fuse::generatorOf(op) == nn::Generator::Gemm ||
                    fuse::generatorOf(members) == nn::Generator::Gemm))
    return "--fusion generic gives every product a kernel";
  return "";
}

/// Whether a kernel of the cache can compute an operation before elements of
/// heads are read: the operation computes each element of a head from a few
/// elements of the same head, as a rotary embedding does, or it splits rows
/// into heads or merges these, or it is a norm of heads that a warp can compute
/// by one access of each lane.
static bool computesHeadElements(Operation *op) {
  if (isa<nn::ReshapeOp>(op))
    return true;
  if (auto norm = dyn_cast<nn::RmsNormOp>(op)) {
    constexpr int64_t elementsOfLane = 4, elementsOfAccess = 8;
    int64_t columns = nn::headColumnsOf(op);
    return columns > 0 && columns <= 32 * elementsOfLane &&
           columns % elementsOfAccess == 0 && norm.getRstd().use_empty();
  }
  return isOnHeads(op) && !op->hasTrait<nn::Rowwise>() &&
         fuse::generatorOf(op) == nn::Generator::Rows &&
         op->getNumResults() == 1 &&
         op->getResult(0).getType() == op->getOperand(0).getType();
}

/// Whether each row of the model's decode programs is a token of another
/// sequence. The runtime gives a sequence several rows only if a draft guesses
/// tokens: then programs have more rows than there are sequences
/// (plan::mostGuesses).
static bool rowsAreSequences(nn::ModelOp model) {
  int64_t sequences = config::textsOfGroup(model.getStrategy().getValue());
  bool isKnown = false;
  for (auto step : model.getOps<nn::StepOp>()) {
    if (step.getKind() != nn::ProgramKind::Decode)
      continue;
    auto inputs = step.getInputsAttr().getAsRange<nn::PortAttr>();
    for (auto [port, type] : llvm::zip(inputs, step.getArgumentTypes())) {
      if (port.getRole() != nn::PortRole::Positions)
        continue;
      isKnown = true;
      if (cast<RankedTensorType>(type).getDimSize(0) > sequences)
        return false;
    }
  }
  return isKnown;
}

/// Returns the reason why a kernel cannot write the cache and compute attention
/// over it; empty if it can.
static std::string refusalOfBoth(nn::CacheWriteOp write,
                                 nn::PagedAttentionOp attention) {
  if (attention.getKeys() != write.getNewKeys())
    return "it does not write the cache that attention reads";
  // If rows are tokens of one sequence, a row reads keys and values that the
  // block of another row writes.
  if (shapeOf(attention.getPositions())[0] > 1 &&
      !rowsAreSequences(attention->getParentOfType<nn::ModelOp>()))
    return "its rows may belong to one sequence";
  if (write.getPages() != attention.getPages() ||
      write.getPositions() != attention.getPositions() ||
      write.getLengths() != attention.getLengths() ||
      write.getQkv() != attention.getQkv())
    return "it writes other tokens";
  return "";
}

std::string fuse::refusalOfCacheGroup(ArrayRef<Operation *> ops,
                                      const codegen::FusionRules &rules) {
  Operation *last = ops.back();
  nn::CacheWriteOp write;
  for (Operation *op : ops)
    if (auto found = dyn_cast<nn::CacheWriteOp>(op))
      write = found;
  std::string why;
  if (auto attention = dyn_cast<nn::PagedAttentionOp>(last)) {
    nn::HeadsAttr heads = attention.getHeads();
    int64_t queries =
        shapeOf(attention.getPositions())[1] * heads.getCount() / heads.getKv();
    if (queries > rules.queriesOfCacheWrites)
      return "a key head has " + std::to_string(queries) +
             " queries, more than " +
             std::to_string(rules.queriesOfCacheWrites);
    if (write)
      why = refusalOfBoth(write, attention);
  } else if (rules.queriesOfCacheWrites == 0) {
    why = "cache writes of this target compute nothing";
  }
  if (!why.empty())
    return why;
  for (Operation *op : ops) {
    if (nn::conditionOf(op) != nn::conditionOf(last))
      return "some steps skip only one of the two";
    if (op == last || op == write)
      continue;
    if (!computesHeadElements(op))
      return "it does not compute elements of heads";
    for (Operation *user : op->getUsers())
      if (!llvm::is_contained(ops, user))
        return "what it computes is used elsewhere";
  }
  return "";
}

std::string fuse::refusal(Operation *op, ArrayRef<Operation *> members,
                          const codegen::FusionRules &rules) {
  std::string why = refusalOfPolicy(op, members, rules);
  if (!why.empty())
    return why;
  Operation *first = members.front();
  if (nn::conditionOf(op) != nn::conditionOf(first))
    return "some steps skip only one of the two";
  auto sum = dyn_cast<nn::SumRowsOp>(op);
  auto gradient = dyn_cast<nn::LinearGradWeightOp>(first);
  if (sum && gradient && sum.getInput() == gradient.getGrad())
    return refusalOfSum(sum, rules);
  nn::Generator generator = generatorOf(members);
  if (auto packed = dyn_cast<nn::PackedLinearOp>(op)) {
    if (nn::PackedLinearOp other = packedIn(members))
      return refusalOfProduct(packed, other, rules);
    if (generator == nn::Generator::Rows)
      return refusalOfPrologue(packed, members, rules);
  }
  if (generator == nn::Generator::Gemm)
    return refusalAfterProduct(op, members, rules);
  if (sumsVector(op) && llvm::all_of(members, sumsVector))
    return static_cast<int64_t>(members.size()) < rules.vectorSums
               ? ""
               : "there are too many vectors";
  if (generator != nn::Generator::Rows)
    return "its kernel (" + stringifyGenerator(generator).str() +
           ") takes no further operation";
  if (!op->hasTrait<nn::Rowwise>() && !sumsRows(op))
    return "it does not go row by row";
  if (domainOf(op) != domainOf(first))
    return "it goes over another shape";
  SmallVector<Operation *> all(members);
  all.push_back(op);
  return llvm::any_of(all, sumsRows) ? refusalOfSums(all, rules) : "";
}
