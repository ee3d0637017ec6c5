//===- Verify.cpp - Verifies the result of the spmd phase -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LayerConditions.h"
#include "dialects/Dist/Parts.h"
#include "dialects/NN/Conditions.h"
#include "dialects/NN/ProgramPorts.h"
#include "heddle/Transforms/Common/HostValues.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Common/VerifyPass.h"
#include "heddle/Transforms/Spmd/Passes.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_SPMDVERIFY
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

constexpr StringLiteral shardingAttributes[] = {"shardings", "arg_shardings",
                                                "result_shardings"};

/// Checks that the sizes of a collective's operand and result fit each other.
LogicalResult verifySize(Operation *op, const dist::Strategy &strategy) {
  auto check = [&](ArrayAttr axes, int64_t dim, bool gathers) {
    auto in = cast<ShapedType>(op->getOperand(0).getType());
    auto out = cast<ShapedType>(op->getResult(0).getType());
    int64_t ranks = dist::groupSize(strategy, axes);
    int64_t whole = gathers ? out.getDimSize(dim) : in.getDimSize(dim);
    int64_t part = gathers ? in.getDimSize(dim) : out.getDimSize(dim);
    if (part * ranks == whole)
      return success();
    return LogicalResult(op->emitError("H0906: gives ")
                         << out << " from " << in << " over " << ranks
                         << " ranks along " << axes);
  };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](dist::AllGatherOp gather) {
        return check(gather.getAxes(), gather.getDim(), true);
      })
      .Case<dist::ReduceScatterOp, dist::SliceOp>([&](auto split) {
        return check(split.getAxes(), split.getDim(), false);
      })
      .Case([&](dist::AllToAllOp exchange) {
        if (exchange.getSplitDim() == exchange.getConcatDim())
          return success();
        return failure(
            failed(check(exchange.getAxes(), exchange.getSplitDim(), false)) ||
            failed(check(exchange.getAxes(), exchange.getConcatDim(), true)));
      })
      .Default([](Operation *) { return success(); });
}

/// Checks that the type of a bucket that ranks split has the size of one rank's
/// shard.
LogicalResult verifyBucket(nn::BucketOp bucket,
                           const dist::Strategy &strategy) {
  if (!bucket.getStorage() || !bucket.getElements())
    return success();
  ArrayAttr dims = bucket.getStorage()->getDims();
  if (dims.size() != 1)
    return bucket.emitError("H0906: is flat, and split along ")
           << dims.size() << " dimensions";
  auto axes = cast<ArrayAttr>(dims[0]);
  if (failed(dist::verifyAxes(bucket, axes)))
    return failure();
  // ZeRO splits the flat tensor of a bucket over the mesh axes whose ranks hold
  // replicas of the parameters. Tensor parallelism does not: it splits each
  // parameter before the parameters are laid side by side in the flat tensor.
  // So `ranks` counts only the ranks along the axes of replicas.
  SmallVector<Attribute> replicas(axes.getValue());
  llvm::erase_if(replicas,
                 [](Attribute axis) { return !dist::holdsReplicas(axis); });
  int64_t ranks =
      dist::groupSize(strategy, ArrayAttr::get(bucket.getContext(), replicas));
  int64_t elements = *bucket.getElements();
  auto type = cast<RankedTensorType>(bucket.getType());
  if (elements > 0 && type.getNumElements() == (elements - 1) / ranks + 1)
    return success();
  return bucket.emitError("H0906: is ")
         << type << " on each of " << ranks << " ranks, which is no part of "
         << elements << " elements";
}

/// Checks that the rank-local types of states, inputs and outputs agree with
/// their shardings and with the types of the unsharded tensors.
LogicalResult verifyParts(nn::ModelOp model, const dist::Strategy &strategy) {
  for (auto state : model.getOps<nn::StateOp>()) {
    std::optional<nn::PackedAttr> packed = state.getPacked();
    RankedTensorType part = packed ? packed->getOf() : state.getTensorType();
    if (state.getWhole() &&
        failed(dist::verifyPart(state, part, *state.getWhole(),
                                state.getStorageAttr(), state.getSegmentsAttr(),
                                strategy)))
      return failure();
  }
  for (auto bucket : model.getOps<nn::BucketOp>())
    if (failed(verifyBucket(bucket, strategy)))
      return failure();
  llvm::StringMap<ShapedType> kept;
  model.walk([&](nn::KeepOp keep) { kept[nn::portOfKept(keep).getKey()]; });
  for (auto step : model.getOps<nn::StepOp>()) {
    llvm::StringMap<ShapedType> ports = kept;
    for (auto [declared, types] :
         {std::pair(step.getInputs(), step.getArgumentTypes()),
          std::pair(step.getOutputs(), step.getResultTypes())})
      for (auto [port, type] :
           llvm::zip(declared.getAsRange<nn::PortAttr>(), types))
        ports[port.getKey()] = dyn_cast<ShapedType>(type);
    if (failed(dist::verifyPorts(
            step, step.getPortsAttr(),
            [&](StringRef name) -> std::optional<ShapedType> {
              auto port = ports.find(name);
              return port == ports.end() ? std::nullopt
                                         : std::optional(port->second);
            },
            strategy)))
      return failure();
  }
  return success();
}

struct Verify : VerifyPass<heddle::impl::SpmdVerifyBase, Verify> {
  /// Whether an nn.get or nn.set accesses the host's memory for a computation
  /// on the host. Such an access needs no transfer.
  static bool isOfHost(Operation *op, const SymbolTable &symbols) {
    if (auto set = dyn_cast<nn::SetOp>(op))
      return isHostMemory(memoryOf(symbols, set.getState())) &&
             isOnHost(set.getValue(), symbols);
    if (op->use_empty() || !isOnHost(op->getResult(0), symbols))
      return false;
    SmallVector<Operation *> users(op->getUsers());
    for (size_t i = 0; i < users.size(); ++i) {
      auto update = dyn_cast<nn::UpdateOp>(users[i]);
      if (isa<nn::UnpackOp>(users[i]))
        llvm::append_range(users, users[i]->getUsers());
      else if (!update || !runsOnHost(update, symbols))
        return false;
    }
    return true;
  }

  LogicalResult verify(nn::ModelOp model) {
    const dist::Strategy &strategy = model.getStrategy().getValue();
    SymbolTable symbols(model);
    auto verifyOne = [&](Operation *op) {
      return failure(failed(verifyOperation(op, symbols)) ||
                     failed(verifySize(op, strategy)));
    };
    return failure(failed(verifyEach<Operation *>(model, verifyOne)) ||
                   failed(verifyConditions(model)) ||
                   failed(verifyStates(model, "H0906")) ||
                   failed(verifyParts(model, strategy)));
  }

  /// Checks that an operation is skipped with a layer if and only if the
  /// operation serves nothing else.
  LogicalResult verifyConditions(nn::ModelOp model) {
    if (model.getOps<nn::ConditionOp>().empty())
      return success();
    auto verifyStep = [](nn::StepOp step) -> LogicalResult {
      FailureOr<spmd::LayerConditions> expected = spmd::layerConditionsOf(step);
      if (failed(expected))
        return failure();
      auto verifyOne = [&](Operation *op) -> LogicalResult {
        FlatSymbolRefAttr condition = expected->lookup(op);
        if (isa<nn::CallOp>(op) || nn::conditionOf(op) == condition)
          return success();
        if (condition)
          return op->emitError("H0906: serves only calls with the condition ")
                 << condition << ", and is not skipped with them";
        return op->emitError("H0906: is skipped if ")
               << nn::conditionOf(op)
               << " is false, and does not only serve calls with this "
                  "condition";
      };
      return verifyEach<Operation *>(step, verifyOne);
    };
    return verifyEach<nn::StepOp>(model, verifyStep);
  }

  LogicalResult verifyOperation(Operation *op, const SymbolTable &symbols) {
    bool left = isa<dist::ReshardOp>(op);
    for (StringRef name : shardingAttributes)
      left |= op->hasAttr(name);
    if (left)
      return op->emitError("H0906: a sharding is left");
    if (auto wait = dyn_cast<dist::WaitOp>(op)) {
      Operation *start = wait.getInput().getDefiningOp();
      if (!start || !start->hasAttr("pending"))
        return op->emitError("H0906: waits for what is not pending");
    }
    if (!isa<nn::GetOp, nn::SetOp>(op))
      return success();
    auto name = op->getAttrOfType<FlatSymbolRefAttr>("state");
    nn::MemoryKind memory = memoryOf(symbols, name.getValue());
    if (memory == nn::MemoryKind::Device || isOfHost(op, symbols))
      return success();
    return op->emitError("H0906: ")
           << name << " is in memory of the kind "
           << stringifyMemoryKind(memory)
           << ": it is read with dist.fetch and written with dist.store";
  }
};

} // namespace
