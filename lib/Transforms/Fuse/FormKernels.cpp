//===- FormKernels.cpp - Puts every operation into exactly one kernel -----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Fuse/Passes.h"
#include "mlir/IR/IRMapping.h"
#include <deque>

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_FUSEFORMKERNELS
#include "include/heddle/Transforms/Fuse/Passes.h.inc"
} // namespace heddle

namespace {

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Operations that compute each element of their result from the elements at
/// the same place.
bool isElementwise(Operation *op) {
  return isa<nn::AddOp, nn::MulOp, nn::GeluOp, nn::GeluGradOp, nn::SiluOp,
             nn::SiluGradOp, nn::ReluOp, nn::ReluGradOp, nn::CastOp,
             nn::DropoutOp>(op);
}

/// Operations that can share a kernel over the rows of one shape.
bool isRowWise(Operation *op) {
  return isElementwise(op) ||
         isa<nn::LayerNormOp, nn::LayerNormGradInputOp, nn::RmsNormOp,
             nn::RmsNormGradInputOp, nn::CrossEntropyOp, nn::CrossEntropyPartOp,
             nn::CrossEntropyGradOp, nn::EmbeddingOp, nn::AddBiasOp>(op);
}

/// The shape whose rows a row-wise operation goes over.
ArrayRef<int64_t> domainOf(Operation *op) {
  if (isa<nn::CrossEntropyOp, nn::CrossEntropyPartOp>(op))
    return typeOf(op->getOperand(0)).getShape();
  return typeOf(op->getResult(0)).getShape();
}

/// Operations that one launch will do, in order.
struct Group {
  std::string generator;
  SmallVector<Operation *> ops;
  ArrayRef<int64_t> domain;
  bool contains(Operation *op) const { return llvm::is_contained(ops, op); }
};

/// Which result takes the place of which operand, by the operation's meaning:
/// sums take the place of what they add to, new states of old ones.
void tiesOf(Operation *op, DenseMap<Value, Value> &ties) {
  auto tie = [&](Value result, Value operand) {
    if (operand)
      ties[result] = operand;
  };
  if (auto grad = dyn_cast<nn::LinearGradWeightOp>(op))
    tie(grad.getOutput(), grad.getInit());
  if (auto grad = dyn_cast<nn::EmbeddingGradOp>(op))
    tie(grad.getOutput(), grad.getInit());
  if (auto sum = dyn_cast<nn::SumRowsOp>(op))
    tie(sum.getOutput(), sum.getInit());
  if (auto sum = dyn_cast<nn::SumOp>(op))
    tie(sum.getOutput(), sum.getInit());
  if (auto grad = dyn_cast<nn::RmsNormGradWeightOp>(op))
    tie(grad.getOutput(), grad.getInit());
  if (auto grad = dyn_cast<nn::LayerNormGradWeightOp>(op)) {
    tie(grad.getWeightGrad(), grad.getWeightInit());
    tie(grad.getBiasGrad(), grad.getBiasInit());
  }
  // What is added to a state's value takes its place.
  if (auto add = dyn_cast<nn::AddOp>(op))
    if (add.getLhs().getDefiningOp<nn::GetOp>())
      tie(add.getOutput(), add.getLhs());
  if (auto adamw = dyn_cast<nn::AdamWOp>(op)) {
    tie(adamw.getNewParameter(), adamw.getParameter());
    tie(adamw.getNewExpAvg(), adamw.getExpAvg());
    tie(adamw.getNewExpAvgSq(), adamw.getExpAvgSq());
  }
  // The gradient of the logits takes the place of the logits: the largest
  // activation of all is not held twice.
  if (auto grad = dyn_cast<nn::CrossEntropyGradOp>(op))
    if (!isa<BlockArgument>(grad.getLogits()))
      tie(grad.getOutput(), grad.getLogits());
}

struct FormKernels : heddle::impl::FuseFormKernelsBase<FormKernels> {
  using Base::Base;

  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      kernels.clear();
      SmallVector<Block *> blocks;
      model.walk([&](Operation *op) {
        if (isa<nn::FuncOp, nn::StepOp, nn::MicroBatchesOp, pipe::FragmentsOp>(
                op))
          for (Region &region : op->getRegions())
            blocks.push_back(&region.front());
      });
      for (Block *block : blocks)
        if (failed(formKernels(model, *block)))
          return signalPassFailure();
    }
  }

private:
  /// Why `op` may not join `group`, or "".
  std::string refusal(Operation *op, const Group &group) {
    bool epilogue = group.generator == "gemm";
    if (!epilogue && group.generator != "rows")
      return "its kernel (" + group.generator + ") takes no further operation";
    if (epilogue && !isElementwise(op))
      return "only element-wise operations can be a product's epilogue";
    if (domainOf(op) != group.domain)
      return "it goes over another shape";
    for (Operation *member : group.ops)
      for (Operation *user : member->getUsers())
        if (user->getBlock() == op->getBlock() && !group.contains(user) &&
            user != op && user->isBeforeInBlock(op))
          return "a value of the kernel is used in between";
    return "";
  }

  /// The group that `op` joins: that of an operand, the latest that takes it.
  Group *findGroup(Operation *op) {
    Group *best = nullptr;
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      auto found = producer ? owner.find(producer) : owner.end();
      if (found == owner.end())
        continue;
      Group *group = found->second;
      std::string why = refusal(op, *group);
      if (!why.empty()) {
        if (remarks)
          op->emitRemark("not fused with ")
              << producer->getName() << ": " << why;
        continue;
      }
      if (!best || best->ops.back()->isBeforeInBlock(group->ops.back()))
        best = group;
    }
    return best;
  }

  LogicalResult formKernels(nn::ModelOp model, Block &block) {
    groups.clear();
    owner.clear();
    for (Operation &op : block) {
      auto lowering = dyn_cast<nn::LinalgLoweringOpInterface>(op);
      if (!lowering)
        continue;
      StringRef generator = lowering.getKernelGenerator();
      Group *group = isRowWise(&op) ? findGroup(&op) : nullptr;
      if (group) {
        ++numFused;
      } else {
        group = &groups.emplace_back();
        group->generator = generator.empty() ? "rows" : generator.str();
        group->domain = domainOf(&op);
      }
      group->ops.push_back(&op);
      owner[&op] = group;
    }
    for (Group &group : groups)
      outline(model, group);
    return success();
  }

  std::string nameFor(nn::ModelOp model, const Group &group) {
    std::string name;
    for (Operation *op : group.ops)
      if (name.size() < 48)
        name += (name.empty() ? "" : "_") + op->getName().stripDialect().str();
    unsigned count = kernels[name]++;
    return count ? name + "_" + std::to_string(count) : name;
  }

  /// Makes the kernel of a group, and a launch where its last operation stood.
  void outline(nn::ModelOp model, Group &group) {
    llvm::SetVector<Value> inputs;
    SmallVector<Value> outputs;
    DenseMap<Value, Value> ties;
    for (Operation *op : group.ops) {
      for (Value operand : op->getOperands())
        if (!group.contains(operand.getDefiningOp()))
          inputs.insert(operand);
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) {
              return !group.contains(user);
            }))
          outputs.push_back(result);
      tiesOf(op, ties);
    }
    Operation *last = group.ops.back();
    OpBuilder builder(last);
    SmallVector<int64_t> tied;
    for (Value output : outputs)
      tied.push_back(tieIndex(ties.lookup(output), inputs, group));

    Location loc = FusedLoc::get(
        &getContext(), llvm::map_to_vector(group.ops, [](Operation *op) {
          return op->getLoc();
        }));
    planir::KernelOp kernel =
        createKernel(model, group, loc, inputs.getArrayRef(), outputs, tied);
    auto launch = builder.create<planir::LaunchOp>(
        loc, ValueRange(outputs).getTypes(), kernel.getSymName(),
        inputs.getArrayRef(), StringAttr());
    for (auto [output, result] : llvm::zip(outputs, launch.getResults()))
      output.replaceAllUsesWith(result);
    for (Operation *op : llvm::reverse(group.ops))
      op->erase();
    ++numKernels;
  }

  /// The number of the input that is overwritten, or -1: it must come from
  /// outside and be read by nothing after this launch.
  int64_t tieIndex(Value operand, const llvm::SetVector<Value> &inputs,
                   const Group &group) {
    auto found = llvm::find(inputs, operand);
    if (!operand || found == inputs.end())
      return -1;
    Operation *last = group.ops.back();
    for (Operation *user : operand.getUsers())
      if (!group.contains(user) && !(user->getBlock() == last->getBlock() &&
                                     user->isBeforeInBlock(last)))
        return -1;
    return std::distance(inputs.begin(), found);
  }

  planir::KernelOp createKernel(nn::ModelOp model, Group &group, Location loc,
                                ArrayRef<Value> inputs, ArrayRef<Value> outputs,
                                ArrayRef<int64_t> ties) {
    OpBuilder builder = OpBuilder::atBlockEnd(model.getBodyBlock());
    auto kernel = builder.create<planir::KernelOp>(
        loc, nameFor(model, group),
        builder.getFunctionType(ValueRange(inputs).getTypes(),
                                ValueRange(outputs).getTypes()),
        group.generator, ties);
    Block *body = builder.createBlock(
        &kernel.getBody(), {}, ValueRange(inputs).getTypes(),
        llvm::map_to_vector(inputs, [](Value v) { return v.getLoc(); }));
    IRMapping mapping;
    mapping.map(inputs, body->getArguments());
    for (Operation *op : group.ops)
      builder.clone(*op, mapping);
    builder.create<planir::YieldOp>(
        loc, llvm::map_to_vector(outputs,
                                 [&](Value v) { return mapping.lookup(v); }));
    return kernel;
  }

  std::deque<Group> groups;
  DenseMap<Operation *, Group *> owner;
  llvm::StringMap<unsigned> kernels;
};

} // namespace
