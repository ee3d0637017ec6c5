//===- StreamActivations.cpp - Offloads saved activations -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `spmd-stream-activations`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "LayerUses.h"
#include "Layers.h"
#include "StateTiles.h"
#include "dialects/Dist/ByteSize.h"
#include "heddle/Transforms/Spmd/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;

namespace heddle {
#define GEN_PASS_DEF_SPMDSTREAMACTIVATIONS
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

RankedTensorType tensorOf(Value value) {
  return dyn_cast<RankedTensorType>(value.getType());
}

int64_t bytesOf(RankedTensorType type) {
  return type.getNumElements() * dist::byteSize(type.getElementType());
}

/// Returns the type of a state with `slots` slots (entries for micro-batches).
/// Each slot holds a value of `type` and begins at a page.
RankedTensorType slotsFor(RankedTensorType type, int64_t slots) {
  int64_t bytes = llvm::alignTo(bytesOf(type), pageBytes);
  return RankedTensorType::get(
      {slots, bytes / dist::byteSize(type.getElementType())},
      type.getElementType());
}

/// The offloaded states that hold activations of an MLIR block between their
/// store and their fetch. All MLIR blocks of the step use the same states,
/// because they run one after the other, and each reads only what it stored
/// itself.
class Slots {
public:
  Slots(nn::ModelOp model, SymbolTable &symbols, nn::MemoryKind kind)
      : model(model), symbols(symbols), kind(kind) {}

  /// Frees all slots.
  void beginBlock() { used.clear(); }

  /// Returns an offloaded state for a value. No other value of the current MLIR
  /// block uses this state.
  StringRef take(Value value) {
    RankedTensorType type = slotsFor(tensorOf(value), 1);
    SmallVector<StringRef> &ofType = names[type];
    size_t number = used[type]++;
    if (number == ofType.size())
      ofType.push_back(addState(value.getLoc(), type));
    return ofType[number];
  }

private:
  StringRef addState(Location loc, RankedTensorType type) {
    auto last = llvm::to_vector(model.getOps<nn::StateOp>()).back();
    OpBuilder states(model.getContext());
    states.setInsertionPointAfter(last);
    auto state =
        states.create<nn::StateOp>(loc, "saved", nn::StateRole::Saved, type);
    state.setMemory(kind);
    return symbols.insert(state);
  }

  nn::ModelOp model;
  SymbolTable &symbols;
  nn::MemoryKind kind;
  DenseMap<Type, SmallVector<StringRef>> names;
  /// For each type, how many states of this type hold values of the current
  /// MLIR block. This number is also the index in `names` of the next free
  /// state of the type.
  DenseMap<Type, size_t> used;
};

/// Inserts the stores and fetches of one MLIR block: the body of a loop over
/// micro-batches, or of a pipeline stage's forward or backward pass.
class Streamer {
public:
  explicit Streamer(Block &block) : uses(block), builder(block.getParent()) {}

  /// Offloads values that are used again many layers later.
  void moveValues(Slots &slots) {
    slots.beginBlock();
    for (Value value : uses.activations())
      if (bytesOf(tensorOf(value)) >= pageBytes)
        moveValue(value, slots);
  }

  /// Offloads the values that a pipeline stage's forward pass saves in `states`
  /// for its backward pass.
  void moveSlots(const llvm::StringSet<> &states) {
    SmallVector<nn::GetOp> gets;
    SmallVector<nn::SetOp> sets;
    for (Operation &op : uses.block()) {
      if (auto get = dyn_cast<nn::GetOp>(op);
          get && states.contains(get.getState()))
        gets.push_back(get);
      if (auto set = dyn_cast<nn::SetOp>(op);
          set && states.contains(set.getState()))
        sets.push_back(set);
    }
    for (nn::SetOp set : sets) {
      store(set.getValue(), uses.users(set.getValue()), set.getState(),
            set.getSlot());
      set.erase();
    }
    for (nn::GetOp get : gets) {
      if (!get.getValue().use_empty())
        fetch(get.getValue(), uses.users(get.getValue()), get.getState(),
              get.getSlot());
      get.erase();
    }
  }

  void addWaits() { waitForStores(uses.block(), stores); }

  int64_t numStored = 0, numFetched = 0;

private:
  /// Offloads a value between groups of uses that are many layers apart. It is
  /// stored after the first group, and fetched before each later group.
  void moveValue(Value value, Slots &slots) {
    SmallVector<SmallVector<Operation *>> near = uses.uses(value);
    if (near.size() == 1)
      return;
    StringRef state = slots.take(value);
    builder.setInsertionPointToStart(&uses.block());
    if (!first)
      first = builder.create<arith::ConstantIndexOp>(value.getLoc(), 0);
    store(value, near.front(), state, first);
    for (ArrayRef<Operation *> later : ArrayRef(near).drop_front())
      fetch(value, later, state, first);
  }

  /// Stores the value in the slot `slot` (the entry for a micro-batch) of the
  /// offloaded state `state`. The store is inserted after the last of `users`,
  /// which are operations that use the value.
  void store(Value value, ArrayRef<Operation *> users, StringRef state,
             Value slot) {
    builder.setInsertionPointAfter(users.back());
    stores.push_back(builder.create<dist::StoreOp>(value.getLoc(), state,
                                                   /*element=*/0, value, slot));
    ++numStored;
  }

  /// Fetches the value from the slot `slot` of `state` for the operations
  /// `users`. The fetch starts before the layer that precedes the first of
  /// `users`.
  void fetch(Value value, ArrayRef<Operation *> users, StringRef state,
             Value slot) {
    Operation *use = users.front();
    uses.setBeforeUse(builder, use, slot.getDefiningOp());
    auto fetch =
        builder.create<dist::FetchOp>(value.getLoc(), value.getType(), state,
                                      /*element=*/0, /*pending=*/true, slot);
    builder.setInsertionPoint(use);
    Value there = builder.create<dist::WaitOp>(value.getLoc(), value.getType(),
                                               fetch.getOutput());
    value.replaceUsesWithIf(there, [&](OpOperand &operand) {
      return llvm::is_contained(
          users, uses.block().findAncestorOpInBlock(*operand.getOwner()));
    });
    ++numFetched;
  }

  LayerUses uses;
  OpBuilder builder;
  SmallVector<Operation *> stores; ///< Stores that nothing waits for yet.
  /// The constant 0, the index of the slot in a state that `Slots::take`
  /// returns. Such a state has only one slot, because a micro-batch fetches
  /// only values that it has stored itself.
  Value first;
};

struct StreamActivations
    : heddle::impl::SpmdStreamActivationsBase<StreamActivations> {
  void runOnOperation() override {
    nn::ModelOp asked;
    int64_t moved = 0;
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      auto kind = *nn::symbolizeMemoryKind(
          wordOf(model.getStrategy().getValue().placeActivations));
      if (kind == nn::MemoryKind::Device)
        continue;
      moved += move(model, kind);
      asked = model;
    }
    if (asked && moved == 0)
      asked.emitWarning("--place activations has no effect: nothing of ")
          << pageBytes << " bytes or more is used again " << minLayersBetween
          << " layers later";
  }

private:
  /// Inserts the transfers of a model. Returns how many values are stored.
  int64_t move(nn::ModelOp model, nn::MemoryKind kind) {
    int64_t moved = 0;
    SymbolTable symbols(model);
    llvm::StringSet<> placed = placeSlots(model, kind);
    Slots slots(model, symbols, kind);
    for (auto step : model.getOps<nn::StepOp>())
      for (Block *block : waitingBlocks(step)) {
        Streamer streamer(*block);
        streamer.moveValues(slots);
        streamer.moveSlots(placed);
        streamer.addWaits();
        moved += streamer.numStored;
        numFetched += streamer.numFetched;
      }
    numStored += moved;
    return moved;
  }

  /// Moves the states that hold saved activations to another kind of memory,
  /// except states from which values are sent. Returns the names of the moved
  /// states.
  static llvm::StringSet<> placeSlots(nn::ModelOp model, nn::MemoryKind kind) {
    llvm::StringSet<> saved = savedSlots(model), placed;
    for (auto state : model.getOps<nn::StateOp>()) {
      if (!saved.contains(state.getSymName()))
        continue;
      RankedTensorType slots = state.getTensorType();
      auto slot = RankedTensorType::get(slots.getShape().drop_front(),
                                        slots.getElementType());
      if (bytesOf(slot) < pageBytes)
        continue;
      // The state's slots (entries for micro-batches) are now padded to pages,
      // so the state is no longer a shard of a whole tensor.
      state.removeWholeAttr();
      state.removeStorageAttr();
      state.removeSegmentsAttr();
      state.setType(slotsFor(slot, slots.getDimSize(0)));
      state.setMemory(kind);
      placed.insert(state.getSymName());
    }
    return placed;
  }
};

} // namespace
