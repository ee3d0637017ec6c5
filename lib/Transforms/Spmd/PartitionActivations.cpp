//===- PartitionActivations.cpp - Splits saved activations ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `spmd-partition-activations`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "LayerUses.h"
#include "Reshard.h"
#include "StateTiles.h"
#include "dialects/Dist/ByteSize.h"
#include "heddle/Transforms/Shard/Shardings.h"
#include "heddle/Transforms/Spmd/Passes.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;
using dist::TensorShardingAttr;

namespace heddle {
#define GEN_PASS_DEF_SPMDPARTITIONACTIVATIONS
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

/// How an activation is flattened and then split over the ranks along the mesh
/// axis `tensor`.
struct Flat {
  RankedTensorType type, ofValue;
  /// The shardings of the activation (`value`), of the flattened tensor
  /// (`whole`), and of the flattened tensor after the split (`parts`).
  TensorShardingAttr value, whole, parts;
};

/// Splits the saved activations of one model.
class Partitioner {
public:
  Partitioner(nn::ModelOp model, dist::MeshOp mesh)
      : model(model), mesh(mesh), builder(model.getContext()), symbols(model),
        tensorAxes(mesh.getAxesOf(dist::AxisRole::Tensor)),
        ranks(sizeOf(builder.getArrayAttr(tensorAxes), mesh)) {}

  /// Returns how many values were split.
  int64_t run() {
    for (auto step : model.getOps<nn::StepOp>())
      for (Block *block : waitingBlocks(step))
        partValues(LayerUses(*block));
    partSlots();
    return numParted;
  }

private:
  /// Returns how a value is flattened and split over the ranks along the mesh
  /// axis `tensor`. Returns nullopt if these ranks do not all hold the same
  /// data, or if a rank's data is smaller than `pageBytes`. Other mesh axes may
  /// split the value already. The flat tensor is then the concatenation of the
  /// shards, each flattened and padded.
  std::optional<Flat> flatOf(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !isa<FloatType>(type.getElementType()))
      return {};
    TensorShardingAttr sharding = shard::shardingOf(value, symbols);
    if (!sharding)
      sharding = splitBy(
          SmallVector<Attribute>(type.getRank(), builder.getArrayAttr({})));
    SmallVector<Attribute> axes;
    for (auto dim : sharding.getDims().getAsRange<ArrayAttr>())
      llvm::append_range(axes, dim);
    bool isAlike = sharding.getUnreduced().empty() &&
                   llvm::none_of(axes, [&](Attribute axis) {
                     return llvm::is_contained(tensorAxes, axis);
                   });
    RankedTensorType here = localType(type, sharding, mesh);
    if (!isAlike || dist::byteSize(here) < pageBytes)
      return {};
    int64_t others = sizeOf(builder.getArrayAttr(axes), mesh);
    auto flat = RankedTensorType::get(
        {nn::paddedElements(here.getNumElements(), ranks) * others},
        type.getElementType());
    TensorShardingAttr whole = splitBy({builder.getArrayAttr(axes)});
    axes.append(tensorAxes);
    return Flat{flat, type, sharding, whole,
                splitBy({builder.getArrayAttr(axes)})};
  }

  /// Returns the sharding that splits the dimensions of a tensor over the mesh
  /// axes `dims`. The tensor is no partial sum.
  TensorShardingAttr splitBy(ArrayRef<Attribute> dims) {
    return TensorShardingAttr::get(model.getContext(),
                                   builder.getArrayAttr(dims),
                                   builder.getArrayAttr({}));
  }

  Value reshard(Location loc, Value value, TensorShardingAttr from,
                TensorShardingAttr to) {
    return builder.create<dist::ReshardOp>(
        loc, value.getType(), value, from, to,
        builder.getStringAttr(activationsReason), TypeAttr(),
        DenseI64ArrayAttr());
  }

  /// Copies this rank's part of a value. After that the memory of the whole
  /// value can be used for other values.
  Value cut(Value value, const Flat &flat) {
    Location loc = value.getLoc();
    Value whole = builder.create<nn::PackOp>(loc, flat.type, value);
    Value part = reshard(loc, whole, flat.whole, flat.parts);
    ++numParted;
    return builder.create<nn::PackOp>(loc, flat.type, part);
  }

  /// All-gathers a value from its parts and unpacks it, before `use`.
  Value join(Value part, const Flat &flat, Operation *use) {
    Location loc = use->getLoc();
    Value whole = reshard(loc, part, flat.parts, flat.whole);
    builder.setInsertionPoint(use);
    return builder
        .create<nn::UnpackOp>(loc, flat.ofValue, whole,
                              builder.getArrayAttr(Attribute(flat.value)))
        .getResult(0);
  }

  /// Splits values that are used again many layers later.
  void partValues(const LayerUses &uses) {
    for (Value value : uses.activations()) {
      SmallVector<SmallVector<Operation *>> near = uses.uses(value);
      std::optional<Flat> flat = flatOf(value);
      if (near.size() == 1 || !flat)
        continue;
      builder.setInsertionPointAfter(near.front().back());
      Value part = cut(value, *flat);
      for (ArrayRef<Operation *> later : ArrayRef(near).drop_front()) {
        uses.setBeforeUse(builder, later.front(), part.getDefiningOp());
        Value there = join(part, *flat, later.front());
        value.replaceUsesWithIf(there, [&](OpOperand &operand) {
          return llvm::is_contained(
              later, uses.block().findAncestorOpInBlock(*operand.getOwner()));
        });
      }
    }
  }

  /// Splits the values that a pipeline stage's forward pass saves for its
  /// backward pass. They are in states with an entry (slot) for each
  /// micro-batch.
  void partSlots() {
    llvm::StringSet<> saved = savedSlots(model);
    SmallVector<nn::SetOp> sets;
    SmallVector<nn::GetOp> gets;
    model.walk([&](Operation *op) {
      if (auto set = dyn_cast<nn::SetOp>(op);
          set && saved.contains(set.getState()))
        sets.push_back(set);
      if (auto get = dyn_cast<nn::GetOp>(op);
          get && saved.contains(get.getState()))
        gets.push_back(get);
    });
    llvm::StringMap<Flat> flats;
    for (nn::SetOp set : sets)
      if (std::optional<Flat> flat = flatOf(set.getValue())) {
        flats[set.getState()] = *flat;
        builder.setInsertionPoint(set);
        set.getValueMutable().assign(cut(set.getValue(), *flat));
      }
    for (auto &entry : flats) {
      auto state = symbols.lookup<nn::StateOp>(entry.first());
      RankedTensorType slots = state.getTensorType();
      state.setType(slots.clone(
          {slots.getDimSize(0), entry.second.type.getNumElements()}));
      state.setStorageAttr(shard::addFirst(entry.second.parts));
    }
    for (nn::GetOp get : gets)
      if (auto found = flats.find(get.getState()); found != flats.end())
        read(get, found->second);
  }

  void read(nn::GetOp get, const Flat &flat) {
    LayerUses uses(*get->getBlock());
    SmallVector<Operation *> users = uses.users(get.getValue());
    if (!users.empty()) {
      uses.setBeforeUse(builder, users.front(), get.getSlot().getDefiningOp());
      Value part = builder.create<nn::GetOp>(get.getLoc(), flat.type,
                                             get.getState(), get.getSlot());
      get.getValue().replaceAllUsesWith(join(part, flat, users.front()));
    }
    get.erase();
  }

  nn::ModelOp model;
  dist::MeshOp mesh;
  OpBuilder builder;
  SymbolTable symbols;
  SmallVector<Attribute> tensorAxes;
  int64_t ranks;
  int64_t numParted = 0;
};

struct PartitionActivations
    : heddle::impl::SpmdPartitionActivationsBase<PartitionActivations> {
  void runOnOperation() override {
    nn::ModelOp asked;
    int64_t parted = 0;
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      auto mesh = model.lookupSymbol<dist::MeshOp>("mesh");
      if (!model.getStrategy().getValue().partitionActivations || !mesh ||
          mesh.getSize(dist::AxisRole::Tensor) == 1)
        continue;
      parted += Partitioner(model, mesh).run();
      asked = model;
    }
    numParted += parted;
    if (asked && parted == 0)
      asked.emitWarning("--partition-activations has no effect: nothing of ")
          << pageBytes << " bytes or more that tensor ranks hold alike is used "
          << "again " << minLayersBetween << " layers later";
  }
};

} // namespace
