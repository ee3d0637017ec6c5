//===- ModuleShares.cpp - The work of kernels by module -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModuleShares.h"
#include "dialects/NN/AttentionCost.h"
#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::emit;

static void addNames(Location loc, SmallVectorImpl<StringRef> &names) {
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location inner : fused.getLocations())
      addNames(inner, names);
    return;
  }
  // Other locations, such as positions in a dump, name no module.
  auto name = dyn_cast<NameLoc>(loc);
  if (name && !llvm::is_contained(names, name.getName().getValue()))
    names.push_back(name.getName().getValue());
}

std::vector<std::string> emit::moduleNamesOf(Location loc) {
  SmallVector<StringRef> names;
  addNames(loc, names);
  return {names.begin(), names.end()};
}

static double elementsOf(Value value) {
  return static_cast<double>(
      cast<RankedTensorType>(value.getType()).getNumElements());
}

/// The multiply-adds of an operation. Those of attention are over all keys of
/// a query, as DeepSpeed's profiler counts; our model FLOPs leave masked keys
/// out.
static double macsOf(nn::CostOpInterface op) {
  if (auto attention = dyn_cast<nn::AttentionOp>(op.getOperation())) {
    auto keys = cast<RankedTensorType>(attention.getQkv().back().getType());
    return 2 * elementsOf(attention.getOutput()) *
           static_cast<double>(keys.getDimSize(1));
  }
  return op.getModelFlops() / 2;
}

/// The floating-point operations that DeepSpeed's profiler counts besides
/// multiply-adds.
static double otherProfilerFlopsOf(Operation *op) {
  return TypeSwitch<Operation *, double>(op)
      .Case(
          [](nn::LayerNormOp norm) { return 5 * elementsOf(norm.getInput()); })
      .Case([](nn::RmsNormOp norm) { return 4 * elementsOf(norm.getInput()); })
      .Case([](nn::MapOp map) {
        // The named functions are the activation functions.
        return map.getFunction() ? elementsOf(map.getResult(0)) : 0;
      })
      .Default([](Operation *) { return 0; });
}

/// The bytes of `value` that `op` reads or writes.
static double bytesIn(Operation *op, Value value) {
  auto cost = dyn_cast<nn::CostOpInterface>(op);
  return cost ? cost.getBytesOf(value) : nn::bytesOf(value);
}

std::vector<plan::ModuleShare> emit::sharesOf(planir::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  SmallVector<StringRef> names;
  for (Operation &op : body.without_terminator())
    addNames(op.getLoc(), names);
  std::vector<plan::ModuleShare> shares(std::max<size_t>(names.size(), 1));
  auto shareOf = [&](Operation *op) -> plan::ModuleShare & {
    SmallVector<StringRef> first;
    if (op)
      addNames(op->getLoc(), first);
    auto found = first.empty() ? names.end() : llvm::find(names, first.front());
    return shares[found == names.end() ? 0 : found - names.begin()];
  };
  for (Operation &op : body.without_terminator()) {
    auto cost = dyn_cast<nn::CostOpInterface>(op);
    if (!cost)
      continue;
    plan::ModuleShare &share = shareOf(&op);
    share.macs += macsOf(cost);
    share.profilerFlops += 2 * macsOf(cost) + otherProfilerFlopsOf(&op);
    share.flops += cost.getFlops();
    share.modelFlops += cost.getModelFlops();
  }
  for (BlockArgument argument : body.getArguments()) {
    // Count the operation that reads most of the argument. If others read the
    // same bytes, they get them from a cache.
    Operation *most = nullptr;
    for (Operation *user : argument.getUsers())
      if (!most || bytesIn(user, argument) >= bytesIn(most, argument))
        most = user;
    if (most)
      shareOf(most).bytes += bytesIn(most, argument);
  }
  for (Value result : body.getTerminator()->getOperands()) {
    Operation *definition = result.getDefiningOp();
    shareOf(definition).bytes +=
        definition ? bytesIn(definition, result) : nn::bytesOf(result);
  }
  return shares;
}

double emit::flopsLeftOut(planir::KernelOp kernel) {
  double flops = 0;
  for (auto attention :
       kernel.getBody().front().getOps<nn::AttentionOpInterface>()) {
    nn::MaskAttr mask = attention.getMask();
    if (!mask.hasLayout())
      continue;
    int64_t length = nn::tensorOf(attention.getQkv()[0]).getDimSize(1);
    double seen = nn::meanKeysOf(attention);
    double all =
        nn::MaskAttr::get(kernel.getContext(), mask.getKind()).meanKeys(length);
    if (seen > 0)
      flops += cast<nn::CostOpInterface>(*attention).getModelFlops() *
               (all / seen - 1);
  }
  return flops;
}

bool emit::isOfUpdate(planir::KernelOp kernel) {
  auto ops = kernel.getBody().front().without_terminator();
  return llvm::any_of(
             ops, [](Operation &op) { return op.hasTrait<nn::Updates>(); }) ||
         llvm::all_of(ops, [](Operation &op) {
           return isa<nn::GlobalNormOp, nn::SquareSumsOp, nn::AdvancePowerOp,
                      nn::CountUpdateOp, nn::TakeRateOp>(op);
         });
}
