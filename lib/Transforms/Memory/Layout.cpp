//===- Layout.cpp - Offsets of states in memory ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layout.h"
#include "EmitSequence.h"
#include "dialects/Plan/PlanFormat.h"
#include "heddle/PlanFormat/MemoryHelp.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Memory/Packing.h"
#include "heddle/Transforms/Memory/StateBytes.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

static int64_t paddedBytes(RankedTensorType type) {
  return nn::paddedElements(type.getNumElements()) *
         dist::byteSize(type.getElementType());
}

/// Whether MemoryMap::modelBytes counts states of this role (parameter,
/// gradient and so on). It does not count saved activations, because modelBytes
/// must not depend on which activations are saved.
static bool isOfModel(nn::StateRole role) {
  return role == nn::StateRole::Parameter || role == nn::StateRole::Derived ||
         role == nn::StateRole::Gradient || role == nn::StateRole::Optimizer;
}

/// The key under which MemoryMap::owners counts a state's bytes: the category
/// of the data, such as "gradients", and the kind of memory unless it is the
/// device's.
static std::string ownerInMemory(nn::StateOp state) {
  return plan::stateOwner(planir::roleOf(state.getRole()),
                          state.getParameter().has_value(),
                          planir::memoryOf(state.getMemory()));
}

namespace {

/// Assigns offsets to the states of one model, and counts their bytes. If
/// `program` is null, it only counts the bytes.
class StateLayout {
public:
  StateLayout(nn::ModelOp model, planir::ProgramOp program)
      : symbols(model), model(model), program(program), copied(copiedIn(model)),
        builder(model.getContext()) {
    if (program)
      builder.setInsertionPointToEnd(program.getBodyBlock());
  }

  MemoryMap run() {
    placeAll(std::nullopt);
    for (plan::FileRole role : plan::fileRoles) {
      int64_t &end = endOf(nn::MemoryKind::File), begin = end;
      placeAll(role);
      map.owners["padding to pages"] += alignTo(end, pageBytes) - end;
      end = alignTo(end, pageBytes);
      map.fileBytes[role] = end - begin;
    }
    return map;
  }

private:
  /// Assigns offsets to the states that are in the file `file`. If `file` is
  /// empty, assigns offsets to the states that are in no file.
  void placeAll(std::optional<plan::FileRole> file) {
    for (auto bucket : model.getOps<nn::BucketOp>()) {
      SmallVector<nn::StateOp> members = membersOf(bucket);
      // If the update of a bucket was split, additional buckets each contain
      // some of the bucket's members. The original bucket comes first, and
      // assigns offsets to all members. The additional buckets are skipped,
      // because their members then have offsets.
      if (fileOf(members.back()) == file && !placed.contains(members.front()))
        place(bucket, members);
    }
    for (auto state : model.getOps<nn::StateOp>()) {
      if (fileOf(state) != file || placed.contains(state))
        continue;
      beginAtPage(state);
      place(state);
    }
  }

  /// Returns the file that a state is in, or nullopt if the state is not in a
  /// file. If layers read a copy of a parameter, the parameter itself is in the
  /// optimizer's file, because only the optimizer reads it.
  std::optional<plan::FileRole> fileOf(nn::StateOp state) const {
    if (state.getMemory() != nn::MemoryKind::File)
      return std::nullopt;
    switch (state.getRole()) {
    case nn::StateRole::Parameter:
      return copied.contains(state.getSymNameAttr())
                 ? plan::FileRole::Optimizer
                 : plan::FileRole::Parameters;
    case nn::StateRole::Derived:
    case nn::StateRole::Constant:
      return plan::FileRole::Parameters;
    case nn::StateRole::Gradient:
      return plan::FileRole::Gradients;
    case nn::StateRole::Saved:
    case nn::StateRole::Cache:
      return plan::FileRole::Activations;
    case nn::StateRole::Optimizer:
    case nn::StateRole::Accumulator:
    case nn::StateRole::Scalar:
      return plan::FileRole::Optimizer;
    }
    llvm_unreachable("a role that is not known");
  }

  SmallVector<nn::StateOp> membersOf(nn::BucketOp bucket) const {
    return llvm::map_to_vector(
        bucket.getMembers().getAsRange<FlatSymbolRefAttr>(),
        [&](FlatSymbolRefAttr name) {
          return symbols.lookup<nn::StateOp>(name.getValue());
        });
  }

  int64_t &endOf(nn::MemoryKind memory) {
    return map.persistentBytes[planir::memoryOf(memory)];
  }

  void create(nn::StateOp state, int64_t offset, StringRef flat) {
    if (!program)
      return;
    NamedAttrList like(state->getAttrs());
    for (StringRef name : {"sym_name", "type", "memory"})
      like.erase(name);
    builder.create<planir::StateOp>(
        state.getLoc(), state.getSymName(), state.getType(), offset,
        state.getMemory(), like.getDictionary(builder.getContext()),
        flat.empty() ? FlatSymbolRefAttr()
                     : FlatSymbolRefAttr::get(builder.getContext(), flat));
  }

  void own(nn::StateOp state, int64_t bytes) {
    map.owners[ownerInMemory(state)] += bytes;
    endOf(state.getMemory()) += bytes;
    if (isOfModel(state.getRole()))
      map.modelBytes[planir::memoryOf(state.getMemory())] += bytes;
  }

  /// Lets an offloaded state begin at a page boundary.
  void beginAtPage(nn::StateOp state) {
    int64_t &end = endOf(state.getMemory());
    if (state.getMemory() != nn::MemoryKind::Device)
      own(state, alignTo(end, pageBytes) - end);
  }

  void place(nn::StateOp state) {
    if (!placed.insert(state).second)
      return;
    create(state, endOf(state.getMemory()), "");
    own(state, paddedBytes(state.getTensorType()));
  }

  void place(nn::BucketOp bucket, ArrayRef<nn::StateOp> members) {
    auto type = cast<RankedTensorType>(bucket.getType());
    nn::StateOp last = members.back();
    int64_t &end = endOf(last.getMemory());
    beginAtPage(last);
    int64_t begin = end, first = 0;
    for (nn::StateOp state : members) {
      if (!isSplit(bucket)) {
        place(state);
        continue;
      }
      placed.insert(state);
      create(state, first, bucket.getSymName());
      first += nn::paddedElements(state.getTensorType().getNumElements());
    }
    if (program && isSplit(bucket)) {
      SmallVector<Attribute> axes(
          cast<ArrayAttr>(bucket.getStorage()->getDims()[0]).getValue());
      // Only axes whose ranks hold replicas of the parameters (data
      // parallelism) split the flat tensor, as in ZeRO. Other axes, for example
      // of tensor parallelism, split each member of the bucket by itself.
      llvm::erase_if(axes,
                     [](Attribute axis) { return !dist::holdsReplicas(axis); });
      builder.create<planir::FlatOp>(
          bucket.getLoc(), bucket.getSymName(), type, begin, last.getMemory(),
          *bucket.getElements(), builder.getArrayAttr(axes));
    }
    // A bucket that is split over ranks may be padded at its end, so that all
    // ranks get shards of equal size.
    int64_t padded = begin + paddedBytes(type);
    if (padded > end)
      own(last, padded - end);
  }

  SymbolTable symbols;
  nn::ModelOp model;
  planir::ProgramOp program;
  /// The parameters that have a copy in another precision, which layers read
  /// instead of the parameter.
  llvm::DenseSet<StringAttr> copied;
  OpBuilder builder;
  DenseSet<Operation *> placed;
  MemoryMap map;
};

} // namespace

MemoryMap heddle::memory::layOutStates(nn::ModelOp model,
                                       planir::ProgramOp program) {
  return StateLayout(model, program).run();
}

plan::PerMemory<int64_t> heddle::modelStateBytes(nn::ModelOp model) {
  return StateLayout(model, /*program=*/{}).run().modelBytes;
}

StateRange heddle::memory::rangeOf(dist::FetchOp fetch) {
  return {fetch.getState(), int64_t(fetch.getElement()),
          elementsOf(fetch.getOutput().getType())};
}

StateRange heddle::memory::rangeOf(dist::FetchRowsOp fetch) {
  auto output = cast<RankedTensorType>(fetch.getOutput().getType());
  return {fetch.getState(), int64_t(fetch.getElement()),
          int64_t(fetch.getRows()) * output.getShape().back()};
}

StateRange heddle::memory::rangeOf(dist::StoreOp store) {
  return {store.getState(), int64_t(store.getElement()),
          elementsOf(store.getValue().getType())};
}

bool RangeOverlaps::operator()(const StateRange &a, const StateRange &b) {
  if (a.name == b.name)
    return a.element < b.element + b.count && b.element < a.element + a.count;
  return share(a.name, b.name);
}

bool RangeOverlaps::share(StringRef a, StringRef b) {
  auto [entry, isNew] = shared.try_emplace({a.data(), b.data()}, false);
  if (!isNew)
    return entry->second;
  // `a` and `b` each name a state or a bucket, which is a list of adjacent
  // states. If the two lists have a state in common, one list contains the
  // first state of the other list.
  SmallVector<StringRef> first = statesOf(symbols, a);
  SmallVector<StringRef> second = statesOf(symbols, b);
  entry->second = llvm::is_contained(first, second.front()) ||
                  llvm::is_contained(second, first.front());
  return entry->second;
}

int64_t heddle::memory::stagingBytesOf(planir::ProgramOp program) {
  const dist::Strategy &strategy = program.getStrategy().getValue();
  if (!factsOf(strategy.target).hasDeviceMemory)
    return 0;
  if (program.getPersistentBytes().of(planir::MemoryKind::File) > 0 ||
      program.getArenaBytes().of(planir::MemoryKind::File) > 0)
    return 2 * plan::stagingRingBytes;
  bool copiesRows =
      program.walk([](planir::CopyRowsOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  return copiesRows ? plan::stagingRingBytes : 0;
}

StringRef heddle::memory::ownerOf(const Root &root) {
  if (root.kind == Root::Kind::Port)
    return "inputs and outputs";
  if (root.memory != nn::MemoryKind::Device)
    return "windows of states";
  auto fetch =
      root.value ? root.value.getDefiningOp<dist::FetchOp>() : dist::FetchOp();
  if (fetch && !fetch.getSlot())
    return "windows of states";
  return "activations";
}
