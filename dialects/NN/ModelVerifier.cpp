//===- ModelVerifier.cpp - What holds in a model at every phase -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"
#include "llvm/Support/JSON.h"
#include <functional>

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;
using dist::TensorShardingAttr;

/// Layers call other layers, never, through any of them, themselves.
static LogicalResult verifyCalls(ModelOp model) {
  mlir::SymbolTable symbols(model);
  DenseMap<Operation *, bool> finished;
  std::function<LogicalResult(FuncOp)> visit = [&](FuncOp function) {
    finished[function] = false;
    WalkResult walk = function.walk([&](CallOp call) {
      auto callee = symbols.lookup<FuncOp>(call.getCallee());
      if (!callee)
        return WalkResult::advance(); // The call's own verifier reports it.
      auto known = finished.find(callee);
      if (known == finished.end())
        return failed(visit(callee)) ? WalkResult::interrupt()
                                     : WalkResult::advance();
      if (known->second)
        return WalkResult::advance();
      call.emitOpError("is in a circle of calls: ")
          << call.getCalleeAttr() << " calls itself";
      return WalkResult::interrupt();
    });
    finished[function] = true;
    return failure(walk.wasInterrupted());
  };
  for (auto function : model.getOps<FuncOp>())
    if (!finished.contains(function) && failed(visit(function)))
      return failure();
  return success();
}

namespace {

/// Shardings fit what they are of, and name axes of the mesh.
class ShardingVerifier {
public:
  explicit ShardingVerifier(ModelOp model) {
    auto meshes = model.getOps<dist::MeshOp>();
    if (!meshes.empty())
      mesh = *meshes.begin();
  }

  LogicalResult verify(Operation *op) {
    if (auto state = dyn_cast<StateOp>(op))
      return verify(op, state.getStorageAttr(), state.getType());
    if (auto bucket = dyn_cast<BucketOp>(op))
      return verify(op, bucket.getStorageAttr(), bucket.getType());
    if (auto function = dyn_cast<FuncOp>(op))
      return verifyBoundary(function);
    if (auto step = dyn_cast<StepOp>(op))
      return verifyBoundary(step);
    if (auto reshard = dyn_cast<dist::ReshardOp>(op))
      return success(
          succeeded(verify(op, reshard.getFrom(), reshard.getType())) &&
          succeeded(verify(op, reshard.getTo(), reshard.getType())));
    if (auto axes = op->getAttrOfType<ArrayAttr>("axes");
        axes && !isa<dist::MeshOp>(op) && failed(verifyAxes(op, axes)))
      return failure();
    if (auto axis = op->getAttrOfType<StringAttr>("axis");
        axis && failed(verifyAxis(op, axis)))
      return failure();
    auto shardings = op->getAttrOfType<ArrayAttr>("shardings");
    return shardings ? verifyList(op, shardings, op->getResultTypes())
                     : success();
  }

private:
  template <typename OpT> LogicalResult verifyBoundary(OpT function) {
    if (auto list = function.getArgShardings();
        list && failed(verifyList(function, *list,
                                  TypeRange(function.getArgumentTypes()))))
      return failure();
    auto list = function.getResultShardings();
    return list ? verifyList(function, *list,
                             TypeRange(function.getResultTypes()))
                : success();
  }

  /// One sharding for each tensor; anything for what is none.
  LogicalResult verifyList(Operation *op, ArrayAttr list, TypeRange types) {
    if (list.size() != types.size())
      return op->emitOpError("has ")
             << list.size() << " shardings for " << types.size() << " values";
    for (auto [attribute, type] : llvm::zip(list, types)) {
      if (!isa<RankedTensorType>(type))
        continue;
      auto sharding = dyn_cast<TensorShardingAttr>(attribute);
      if (!sharding)
        return op->emitOpError("has ")
               << attribute << ", not the sharding of a " << type;
      if (failed(verify(op, sharding, type)))
        return failure();
    }
    return success();
  }

  LogicalResult verify(Operation *op, TensorShardingAttr sharding, Type type) {
    if (!sharding)
      return success();
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor &&
        static_cast<int64_t>(sharding.getDims().size()) != tensor.getRank())
      return op->emitOpError("has ")
             << sharding << " for a value of rank " << tensor.getRank();
    for (auto axes : sharding.getDims().getAsRange<ArrayAttr>())
      if (failed(verifyAxes(op, axes)))
        return failure();
    return verifyAxes(op, sharding.getUnreduced());
  }

  LogicalResult verifyAxes(Operation *op, ArrayAttr axes) {
    for (auto axis : axes.getAsRange<StringAttr>())
      if (failed(verifyAxis(op, axis)))
        return failure();
    return success();
  }

  LogicalResult verifyAxis(Operation *op, StringAttr axis) {
    // Until the shard phase has made a mesh there is none to hold it to.
    if (!mesh || mesh.getAxisSize(axis) > 0)
      return success();
    return op->emitOpError("names the axis ")
           << axis << ", which the mesh does not have";
  }

  dist::MeshOp mesh;
};

} // namespace

/// Every tensor can be held in memory.
static LogicalResult verifyTypes(Operation *op) {
  auto verify = [&](TypeRange types) -> LogicalResult {
    for (Type type : types) {
      auto tensor = dyn_cast<TensorType>(type);
      if (tensor && !(tensor.hasStaticShape() &&
                      dist::isStorable(tensor.getElementType())))
        return op->emitOpError("has a value of type ")
               << type << "; tensors have static shapes, and elements of f64, "
               << "f32, bf16, f16, i8, i32 or i64";
    }
    return success();
  };
  for (Region &region : op->getRegions())
    for (Block &block : region)
      if (failed(verify(block.getArgumentTypes())))
        return failure();
  return verify(op->getResultTypes());
}

LogicalResult ModelOp::verifyRegions() {
  Attribute objective = getWeights().get("objective");
  if (objective && !isa<ObjectiveAttr>(objective))
    return emitOpError("has weights whose objective is ")
           << objective << "; it must be #nn.objective<causal> or "
           << "#nn.objective<mlm>";
  llvm::Expected<llvm::json::Value> config = llvm::json::parse(getConfig());
  if (!config)
    return emitOpError("has a config that is no JSON: ")
           << llvm::toString(config.takeError());
  if (!config->getAsObject())
    return emitOpError("has a config that is no JSON object");
  ShardingVerifier shardings(*this);
  WalkResult walk = getBody().walk([&](Operation *op) {
    bool holds = succeeded(verifyTypes(op)) && succeeded(shardings.verify(op));
    return holds ? WalkResult::advance() : WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted() || failed(verifyCalls(*this)));
}
