//===- ModelVerifier.cpp - Invariants of models in all phases -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The verifier of nn.model: properties that concern several operations of a
// model and hold in every phase.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Conditions.h"
#include "dialects/NN/Phases.h"
#include "llvm/ADT/StringMap.h"
#include <functional>
#include <nlohmann/json.hpp>

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;
using dist::TensorShardingAttr;

/// Verifies that calls are not recursive.
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

/// Verifies that every sharding has an entry for each dimension of its tensor
/// and names axes of the mesh.
class ShardingVerifier {
public:
  explicit ShardingVerifier(ModelOp model) {
    auto meshes = model.getOps<dist::MeshOp>();
    if (!meshes.empty())
      mesh = *meshes.begin();
  }

  LogicalResult verify(Operation *op) {
    if (auto state = dyn_cast<StateOp>(op))
      return verify(op, state.getStorageAttr(),
                    state.getPacked() ? Type(state.getPacked()->getOf())
                                      : state.getType());
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
    if (auto stack = dyn_cast<dist::StackOp>(op))
      return success(
          succeeded(verify(op, stack.getFrom(), stack.getInput().getType())) &&
          succeeded(verify(op, stack.getTo(), stack.getOutput().getType())));
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

  /// Verifies that `list` has a sharding for each type that is a tensor.
  /// Entries for other types are ignored.
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
    // Before the shard phase the model has no mesh, so axes cannot be checked.
    if (!mesh || mesh.getAxisSize(axis) > 0)
      return success();
    return op->emitOpError("names the axis ")
           << axis << ", which the mesh does not have";
  }

  dist::MeshOp mesh;
};

} // namespace

/// Verifies that every tensor has a static shape and an element type that the
/// runtime can store.
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

/// Verifies those entries of the model's attribute `weights` that the runtime
/// reads to check a user's data, such as the size of the vocabulary.
static LogicalResult verifyWeights(ModelOp model) {
  DictionaryAttr weights = model.getWeights();
  for (StringRef key : {"vocab_size", "max_positions", "segments"}) {
    Attribute value = weights.get(key);
    auto count = dyn_cast_if_present<IntegerAttr>(value);
    if (value && !(count && count.getInt() > 0))
      return model.emitOpError("has weights whose ")
             << key << " is " << value << "; it must be 1 : i64 or more";
  }
  auto vocab = weights.getAs<IntegerAttr>("vocab_size");
  Attribute token = weights.get("mask_token");
  auto mask = dyn_cast_if_present<IntegerAttr>(token);
  if (token && !(mask && mask.getInt() >= 0 &&
                 (!vocab || mask.getInt() < vocab.getInt())))
    return model.emitOpError("has weights whose mask_token is ")
           << token << "; it must be a number from 0 : i64 to below vocab_size";
  Attribute special = weights.get("special_tokens");
  if (special && !isa<DenseI64ArrayAttr>(special))
    return model.emitOpError("has weights whose special_tokens are ")
           << special << "; they must be written as array<i64: 0, 1>";
  auto isText = [](NamedAttribute order) {
    return isa<StringAttr>(order.getValue());
  };
  Attribute orders = weights.get("orders");
  auto known = dyn_cast_if_present<DictionaryAttr>(orders);
  if (orders && !(known && llvm::all_of(known, isText)))
    return model.emitOpError("has weights whose orders are ")
           << orders << "; they must be written as {\"a.order\" = \"b.order\"}";
  Attribute extended = weights.get("extended");
  auto table = dyn_cast_if_present<DictionaryAttr>(extended);
  if (extended &&
      !(table && table.getAs<StringAttr>("tensor") &&
        table.getAs<IntegerAttr>("rows") && table.getAs<IntegerAttr>("first") &&
        table.getAs<BoolAttr>("interpolates") &&
        table.getAs<IntegerAttr>("source_rows")))
    return model.emitOpError("has weights whose extended table is ")
           << extended
           << "; it must be written as {tensor = \"wpe.weight\", rows = 8192 : "
              "i64, first = 0 : i64, interpolates = false, source_rows = 1024 "
              ": i64}";
  return success();
}

/// How many different integers may appear in the step's input that has this
/// role, such as the vocabulary size for token ids. Returns 0 if the attribute
/// `weights` has no such entry.
static int64_t countOf(PortRole role, DictionaryAttr weights) {
  StringRef key = role == PortRole::Ids         ? "vocab_size"
                  : role == PortRole::Segments  ? "segments"
                  : role == PortRole::Positions ? "max_positions"
                                                : "";
  auto count = weights.getAs<IntegerAttr>(key);
  return count ? count.getInt() : 0;
}

/// Verifies that an embedding table has a row for each integer that its input
/// may contain.
static LogicalResult verifyTables(FuncOp function, DictionaryAttr weights) {
  if (!function.getInputs())
    return success();
  for (auto [argument, port] :
       llvm::zip(function.getArguments(),
                 function.getInputs()->getAsRange<PortAttr>()))
    for (Operation *user : argument.getUsers()) {
      auto embedding = dyn_cast<EmbeddingOp>(user);
      if (!embedding || embedding.getFirst())
        continue;
      int64_t rows = embedding.getTable().getType().getDimSize(0);
      int64_t count = countOf(port.getRole(), weights);
      if (count > rows)
        return embedding.emitOpError("has a table of ")
               << rows << " rows, but there may be " << count << " "
               << stringifyPortRole(port.getRole())
               << ", as the weights of the model say";
    }
  return success();
}

/// Verifies that the padding id is a row of the table. If the table is a shard,
/// the row of the padding id may be in another rank's shard, so a shard is not
/// checked.
static LogicalResult verifyPadding(Operation *op) {
  auto embedding = dyn_cast<EmbeddingOp>(op);
  if (!embedding || !embedding.getPadding() || embedding.getFirst())
    return success();
  int64_t rows = embedding.getTable().getType().getDimSize(0);
  int64_t padding = *embedding.getPadding();
  if (padding >= 0 && padding < rows)
    return success();
  return embedding.emitOpError("has the padding ")
         << padding << " in a table of " << rows << " rows";
}

/// Verifies that the words, scales and zero points of a packed weight are made
/// of the same tensors of files.
static LogicalResult verifyPacked(ModelOp model) {
  llvm::StringMap<StateOp> firsts;
  for (auto state : model.getOps<StateOp>()) {
    if (!state.getPacked())
      continue;
    StateOp first =
        firsts.try_emplace(state.getPacked()->getName(), state).first->second;
    if (first.getSourceAttr() == state.getSourceAttr())
      continue;
    InFlightDiagnostic error =
        state.emitOpError("has another source than @")
        << first.getSymName() << ", which is packed from the same weight \""
        << state.getPacked()->getName().getValue() << "\"";
    error.attachNote(first.getLoc()) << "the other state is here";
    return error;
  }
  return success();
}

/// The train programs and other programs of a model. A forward function with a
/// phase counts as a train program, because one will be derived from it.
static SmallVector<ProgramPhase> phasesOf(ModelOp model) {
  SmallVector<ProgramPhase> programs;
  for (auto function : model.getOps<FuncOp>())
    if (function.getProgram() || function.getPhase())
      programs.push_back({function,
                          function.getProgram()
                              ? function.getProgram() == ProgramKind::Train
                              : function.getInputs().has_value(),
                          function.getPhaseAttr()});
  for (auto step : model.getOps<StepOp>())
    programs.push_back(
        {step, step.getKind() == ProgramKind::Train, step.getPhaseAttr()});
  return programs;
}

LogicalResult ModelOp::verifyRegions() {
  if (failed(verifyWeights(*this)))
    return failure();
  Attribute objective = getWeights().get("objective");
  if (objective && !isa<ObjectiveAttr>(objective))
    return emitOpError("has weights whose objective is ")
           << objective << "; it must be #nn.objective<causal> or "
           << "#nn.objective<mlm>";
  StringRef ours =
      stringifyObjective(objective ? cast<ObjectiveAttr>(objective).getValue()
                                   : Objective::NextToken);
  StringRef chosen = config::wordOf(getStrategy().getValue().objective);
  if (!chosen.empty() && chosen != ours)
    return emitOpError("has a strategy whose objective is ")
           << chosen << ", but weights whose objective is " << ours
           << "; write the same in both";
  auto config = nlohmann::json::parse(getConfig(), nullptr,
                                      /*allow_exceptions=*/false);
  if (config.is_discarded())
    return emitOpError("has a config that is no JSON");
  if (!config.is_object())
    return emitOpError("has a config that is no JSON object");
  if (failed(verifyPacked(*this)))
    return failure();
  ShardingVerifier shardings(*this);
  WalkResult walk = getBody().walk([&](Operation *op) {
    bool holds = succeeded(verifyTypes(op)) && succeeded(verifyPadding(op)) &&
                 succeeded(shardings.verify(op));
    return holds ? WalkResult::advance() : WalkResult::interrupt();
  });
  if (walk.wasInterrupted() || failed(verifyCalls(*this)))
    return failure();
  if (failed(verifyConditions(*this)) || failed(verifyPhases(phasesOf(*this))))
    return failure();
  for (auto function : getOps<FuncOp>())
    if (failed(verifyTables(function, getWeights())))
      return failure();
  return success();
}
