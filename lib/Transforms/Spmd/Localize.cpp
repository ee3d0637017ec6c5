//===- Localize.cpp - Replaces global shapes by those of one rank ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `spmd-localize`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "Reshard.h"
#include "dialects/NN/ProgramPorts.h"
#include "dialects/Pipe/PipeDialect.h"
#include "heddle/Transforms/Shard/Shardings.h"
#include "heddle/Transforms/Spmd/Passes.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;
using dist::TensorShardingAttr;

namespace heddle {
#define GEN_PASS_DEF_SPMDLOCALIZE
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

/// Replaces the types of all values in one model by the types of the shards
/// that a rank holds.
class ModelLocalizer {
public:
  ModelLocalizer(nn::ModelOp model, dist::MeshOp mesh)
      : model(model), mesh(mesh), builder(model.getContext()), symbols(model) {}

  void run() {
    noteRules();
    // notePorts must run first: it reads shardings, which localizeBoundary
    // removes.
    for (auto step : model.getOps<nn::StepOp>())
      notePorts(step);
    for (auto function : model.getOps<nn::FuncOp>())
      localizeBoundary(function);
    for (auto step : model.getOps<nn::StepOp>())
      localizeBoundary(step);
    for (auto state : model.getOps<nn::StateOp>())
      localizeState(state);
    for (auto bucket : model.getOps<nn::BucketOp>())
      localizeBucket(bucket);
    SmallVector<Operation *> functions;
    for (Operation &op : *model.getBodyBlock())
      if (isa<nn::FuncOp, nn::StepOp>(op))
        functions.push_back(&op);
    for (Operation *function : functions)
      localizeBlock(function->getRegion(0).front());
    // The type of a step must match the results that the step now returns. An
    // all-gathered result may be longer than before, because each rank's part
    // was padded.
    for (auto step : model.getOps<nn::StepOp>())
      step.setFunctionType(builder.getFunctionType(
          step.getArgumentTypes(),
          step.getBody().front().getTerminator()->getOperandTypes()));
  }

private:
  Type local(Type type, Attribute sharding) {
    auto given = dyn_cast_or_null<TensorShardingAttr>(sharding);
    auto tensor = dyn_cast<RankedTensorType>(type);
    return given && tensor ? localType(tensor, given, mesh) : type;
  }

  int64_t replicas() {
    return mesh.getSize(dist::AxisRole::Data) *
           mesh.getSize(dist::AxisRole::Sequence);
  }

  /// Gives a function or step the local types of its arguments and results, and
  /// removes their shardings.
  template <typename OpT> void localizeBoundary(OpT function) {
    SmallVector<Type> inputs(function.getArgumentTypes());
    SmallVector<Type> results(function.getResultTypes());
    if (auto shardings = function.getArgShardings())
      for (auto [type, sharding] : llvm::zip(inputs, *shardings))
        type = local(type, sharding);
    if (auto shardings = function.getResultShardings())
      for (auto [type, sharding] : llvm::zip(results, *shardings))
        type = local(type, sharding);
    for (auto [argument, type] : llvm::zip(function.getArguments(), inputs))
      argument.setType(type);
    function.setFunctionType(builder.getFunctionType(inputs, results));
    function.removeArgShardingsAttr();
    function.removeResultShardingsAttr();
  }

  /// Writes the sharding and the global type of split inputs, and of values
  /// that nn.keep dumps, into the IR: the runtime needs them.
  void notePorts(nn::StepOp step) {
    NamedAttrList ports;
    auto note = [&](nn::PortAttr which, Type whole, Attribute sharding,
                    ArrayRef<int64_t> segments) {
      if (local(whole, sharding) == whole)
        return;
      NamedAttrList port;
      port.append("sharding", sharding);
      port.append("whole", TypeAttr::get(whole));
      if (!segments.empty())
        port.append("segments", builder.getDenseI64ArrayAttr(segments));
      ports.append(which.getKey(), port.getDictionary(model.getContext()));
    };
    if (auto shardings = step.getArgShardings())
      for (auto [argument, port, sharding] :
           llvm::zip(step.getArguments(),
                     step.getInputs().getAsRange<nn::PortAttr>(), *shardings))
        note(port, argument.getType(), sharding, {});
    step.walk([&](nn::KeepOp kept) {
      TensorShardingAttr sharding = shard::shardingOf(kept.getValue(), symbols);
      auto type = cast<RankedTensorType>(kept.getValue().getType());
      if (!sharding)
        return;
      SmallVector<int64_t> segments = segmentsOf(kept.getValue());
      if (int64_t count = pipe::microBatchesAt(kept)) {
        SmallVector<int64_t> shape = {count};
        llvm::append_range(shape, type.getShape());
        type = type.clone(shape);
        sharding = shard::addFirst(sharding);
      }
      note(nn::portOfKept(kept), type, sharding, segments);
    });
    if (!ports.empty())
      step.setPortsAttr(ports.getDictionary(model.getContext()));
  }

  /// Returns the segments of a value's last dimension, for example the queries,
  /// keys and values of a fused projection. Each segment is split over ranks by
  /// itself. The segments are found at the users of the value, or else in the
  /// layer that returns it.
  SmallVector<int64_t> segmentsOf(Value value) {
    unsigned last = cast<RankedTensorType>(value.getType()).getRank() - 1;
    for (OpOperand &use : value.getUses()) {
      auto reshard = dyn_cast<dist::ReshardOp>(use.getOwner());
      if (reshard && reshard.getSegments())
        return llvm::to_vector(*reshard.getSegments());
      auto split = splits.find(use.getOwner());
      if (split == splits.end())
        continue;
      ArrayRef<int64_t> segments =
          split->second.rule.segmentsOfOperand(use.getOperandNumber(), last);
      if (!segments.empty())
        return llvm::to_vector(segments);
    }
    auto call = value.getDefiningOp<nn::CallOp>();
    if (!call)
      return {};
    auto callee = symbols.lookup<nn::FuncOp>(call.getCallee());
    Operation *terminator = callee.getBody().front().getTerminator();
    return segmentsOf(
        terminator->getOperand(cast<OpResult>(value).getResultNumber()));
  }

  void localizeState(nn::StateOp state) {
    Type whole = state.getType();
    Type part = local(whole, state.getStorageAttr());
    if (part == whole)
      return;
    state.setWhole(whole);
    state.setType(part);
  }

  /// Gives a bucket the type of this rank's part of it. The part includes
  /// padding.
  void localizeBucket(nn::BucketOp bucket) {
    TensorShardingAttr storage = bucket.getStorageAttr();
    if (!storage)
      return;
    int64_t elements = 0;
    for (auto member : bucket.getMembers().getAsRange<FlatSymbolRefAttr>())
      elements +=
          nn::paddedElements(symbols.lookup<nn::StateOp>(member.getValue())
                                 .getTensorType()
                                 .getNumElements());
    int64_t parts = 1;
    for (auto axis :
         cast<ArrayAttr>(storage.getDims()[0]).getAsRange<StringAttr>())
      if (dist::holdsReplicas(axis))
        parts *= mesh.getAxisSize(axis);
    elements = nn::paddedElements(elements, replicas());
    if (parts > 1)
      bucket.setElements(elements);
    Type element = cast<RankedTensorType>(bucket.getType()).getElementType();
    bucket.setType(RankedTensorType::get({elements / parts}, element));
  }

  /// Returns the type of the state or bucket called `name`. If `slot` is true,
  /// returns the type of one of the state's entries for micro-batches.
  Type typeOf(FlatSymbolRefAttr name, bool slot) {
    Operation *symbol = symbols.lookup(name.getValue());
    auto type = cast<RankedTensorType>(
        symbol->getAttrOfType<TypeAttr>("type").getValue());
    return slot ? type.clone(type.getShape().drop_front()) : type;
  }

  void localizeBlock(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block))
      localize(op);
  }

  void localize(Operation &op) {
    for (Region &region : op.getRegions())
      localizeBlock(region.front());
    if (auto get = dyn_cast<nn::GetOp>(op))
      get.getValue().setType(cast<RankedTensorType>(
          typeOf(get.getStateAttr(), bool(get.getSlot()))));
    if (auto slice = dyn_cast<nn::MicroBatchOp>(op)) {
      auto whole = cast<RankedTensorType>(slice.getInput().getType());
      slice.getOutput().setType(whole.clone(whole.getShape().drop_front()));
    }
    if (auto received = dyn_cast<dist::RecvOp>(op))
      localizeReceived(received);
    if (auto call = dyn_cast<nn::CallOp>(op)) {
      auto callee = symbols.lookup<nn::FuncOp>(call.getCallee());
      for (auto [result, type] :
           llvm::zip(call.getResults(), callee.getResultTypes()))
        result.setType(type);
    }
    if (auto unpack = dyn_cast<nn::UnpackOp>(op)) {
      for (auto [member, sharding] :
           llvm::zip(unpack.getMembers(), *unpack.getShardings()))
        member.setType(local(member.getType(), sharding));
      unpack.removeShardingsAttr();
    }
    if (auto pack = dyn_cast<nn::PackOp>(op))
      localizePack(pack);
    if (auto reshard = dyn_cast<dist::ReshardOp>(op))
      lowerReshard(reshard, mesh);
    else if (auto stack = dyn_cast<dist::StackOp>(op)) {
      // A rank has the same elements before and after.
      stack.getOutput().replaceAllUsesWith(stack.getInput());
      stack.erase();
    } else if (auto ruled = dyn_cast<nn::ShardingRuleOpInterface>(op))
      localizeCompute(op, ruled);
  }

  void localizeReceived(dist::RecvOp received) {
    if (auto shardings = received->getAttrOfType<ArrayAttr>("shardings"))
      received.getValue().setType(cast<RankedTensorType>(
          local(received.getValue().getType(), shardings[0])));
    received->removeAttr("shardings");
    // A received value must have the type of the state to which it is written,
    // or of the local value to which it is added. That type may be padded.
    for (Operation *user : received.getValue().getUsers())
      if (auto set = dyn_cast<nn::SetOp>(user))
        received.getValue().setType(cast<RankedTensorType>(
            typeOf(set.getStateAttr(), bool(set.getSlot()))));
      else if (auto add = dyn_cast<nn::AddOp>(user))
        received.getValue().setType(cast<RankedTensorType>(
            (add.getLhs() == received.getValue() ? add.getRhs() : add.getLhs())
                .getType()));
  }

  /// The number of parts into which a flat tensor is split.
  int64_t flatParts(TensorShardingAttr sharding) {
    return sizeOf(cast<ArrayAttr>(sharding.getDims()[0]), mesh);
  }

  void localizePack(nn::PackOp pack) {
    int64_t now = 0;
    auto type = cast<RankedTensorType>(pack.getFlat().getType());
    for (Type member : pack.getMembers().getTypes())
      now +=
          nn::paddedElements(cast<RankedTensorType>(member).getNumElements());
    // If ranks split the flat tensor, pad it so that their parts have equal
    // sizes. If they only all-reduce it, it needs no padding.
    int64_t parts = 1;
    for (Operation *user : pack->getUsers())
      if (auto reshard = dyn_cast<dist::ReshardOp>(user))
        parts = std::max(parts, flatParts(reshard.getTo()) /
                                    flatParts(reshard.getFrom()));
    if (parts > 1)
      now = nn::paddedElements(now, parts);
    if (now != type.getNumElements())
      pack.getFlat().setType(type.clone({now}));
  }

  /// Records the sharding rules of all operations before types become local.
  void noteRules() {
    model.walk([&](nn::ShardingRuleOpInterface op) {
      dist::Split &split = splits[op];
      split.rule = op.getShardingRule();
      split.axes.resize(split.rule.factors.size(), builder.getArrayAttr({}));
      auto note = [&](ArrayRef<int64_t> dims, TensorShardingAttr sharding) {
        if (!sharding)
          return;
        for (auto [factor, axes] :
             llvm::zip(dims, sharding.getDims().getAsRange<ArrayAttr>()))
          if (!axes.empty())
            split.axes[factor] = axes;
      };
      for (auto [operand, dims] :
           llvm::zip(op->getOperands(), split.rule.operands))
        note(dims, shard::shardingOf(operand, symbols));
      for (auto [result, dims] :
           llvm::zip(op->getResults(), split.rule.results))
        note(dims, shard::shardingOf(result, symbols));
      for (ArrayAttr axes : split.axes)
        split.parts.push_back(sizeOf(axes, mesh));
    });
  }

  /// Gives the results of an element-wise operation the shape of its operands.
  static void takeShape(Operation &op) {
    for (Value result : op.getResults()) {
      auto type = cast<RankedTensorType>(result.getType());
      for (Value operand : op.getOperands()) {
        auto like = dyn_cast<RankedTensorType>(operand.getType());
        if (!like || like.getRank() != type.getRank())
          continue;
        result.setType(like.clone(type.getElementType()));
        break;
      }
    }
  }

  void localizeCompute(Operation &op, nn::ShardingRuleOpInterface ruled) {
    auto shardings = op.getAttrOfType<ArrayAttr>("shardings");
    op.removeAttr("shardings");
    auto split = splits.find(&op);
    if (!shardings || split == splits.end())
      return;
    for (auto [result, sharding] : llvm::zip(op.getResults(), shardings))
      result.setType(local(result.getType(), sharding));
    // The result of an element-wise operation gets the shape of its operands.
    // For a flat tensor the local shape cannot be derived from the global one,
    // because each tensor that is packed into the flat tensor is padded
    // separately.
    if (op.hasTrait<nn::Elementwise>())
      takeShape(op);
    if (auto fill = dyn_cast<nn::FillOp>(op))
      for (Operation *user : fill->getUsers()) {
        if (auto set = dyn_cast<nn::SetOp>(user))
          fill.getOutput().setType(cast<RankedTensorType>(
              typeOf(set.getStateAttr(), bool(set.getSlot()))));
        else if (auto average = dyn_cast<nn::AverageOp>(user))
          fill.getOutput().setType(
              cast<RankedTensorType>(average.getGradient().getType())
                  .clone(fill.getType().getElementType()));
      }
    ruled.localize(split->second);
  }

  nn::ModelOp model;
  dist::MeshOp mesh;
  OpBuilder builder;
  SymbolTable symbols;
  DenseMap<Operation *, dist::Split> splits;
};

struct Localize : heddle::impl::SpmdLocalizeBase<Localize> {
  void runOnOperation() override {
    if (auto mesh = getOperation().lookupSymbol<dist::MeshOp>("mesh"))
      ModelLocalizer(getOperation(), mesh).run();
  }
};

} // namespace
