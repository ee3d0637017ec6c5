//===- Layout.cpp - States in the persistent region, owners of bytes ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layout.h"
#include "EmitSequence.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

static StringRef ownerOfRole(nn::StateRole role) {
  switch (role) {
  case nn::StateRole::Parameter:
    return "parameters";
  case nn::StateRole::ComputeCopy:
    return "parameters in compute precision";
  case nn::StateRole::Derived:
    return "packed weights";
  case nn::StateRole::Gradient:
    return "gradients";
  case nn::StateRole::Saved:
    return "activations of micro-batches under way";
  case nn::StateRole::Cache:
    return "cache";
  case nn::StateRole::Optimizer:
    return "optimizer";
  case nn::StateRole::Accumulator:
  case nn::StateRole::Scalar:
    return "accumulators";
  }
  llvm_unreachable("a role that is not known");
}

static int64_t paddedBytes(RankedTensorType type) {
  return nn::paddedElements(type.getNumElements()) *
         dist::byteSize(type.getElementType());
}

MemoryMap heddle::memory::layOutStates(nn::ModelOp model,
                                       planir::ProgramOp program) {
  MemoryMap map;
  OpBuilder builder = OpBuilder::atBlockEnd(program.getBodyBlock());
  DenseSet<Operation *> placed;
  SymbolTable symbols(model);
  auto create = [&](nn::StateOp state, int64_t offset, StringRef flat) {
    NamedAttrList like(state->getAttrs());
    like.erase("sym_name");
    like.erase("type");
    builder.create<planir::StateOp>(
        state.getLoc(), state.getSymName(), state.getType(), offset,
        planir::MemoryKind::Device, like.getDictionary(builder.getContext()),
        flat.empty() ? FlatSymbolRefAttr()
                     : FlatSymbolRefAttr::get(builder.getContext(), flat));
  };
  auto own = [&](nn::StateRole role, int64_t bytes) {
    map.owners[ownerOfRole(role).str()] += bytes;
    map.persistentBytes += bytes;
  };
  auto place = [&](nn::StateOp state) {
    if (!placed.insert(state).second)
      return;
    create(state, map.persistentBytes, "");
    own(state.getRole(), paddedBytes(state.getTensorType()));
  };
  for (auto bucket : model.getOps<nn::BucketOp>()) {
    auto type = cast<RankedTensorType>(bucket.getType());
    int64_t begin = map.persistentBytes, first = 0;
    nn::StateOp state;
    for (auto member : bucket.getMembers().getAsRange<FlatSymbolRefAttr>()) {
      state = symbols.lookup<nn::StateOp>(member.getValue());
      if (!isSplit(bucket)) {
        place(state);
        continue;
      }
      placed.insert(state);
      create(state, first, bucket.getSymName());
      first += nn::paddedElements(state.getTensorType().getNumElements());
    }
    if (isSplit(bucket)) {
      SmallVector<Attribute> axes(
          cast<ArrayAttr>(bucket.getStorage()->getDims()[0]).getValue());
      // The axes before split the members already.
      llvm::erase_if(axes,
                     [](Attribute axis) { return !dist::holdsReplicas(axis); });
      builder.create<planir::FlatOp>(bucket.getLoc(), bucket.getSymName(), type,
                                     begin, planir::MemoryKind::Device,
                                     *bucket.getElements(),
                                     builder.getArrayAttr(axes));
    }
    // A bucket may be padded to equal parts.
    int64_t end = begin + paddedBytes(type);
    if (end > map.persistentBytes)
      own(state.getRole(), end - map.persistentBytes);
  }
  for (auto state : model.getOps<nn::StateOp>())
    place(state);
  return map;
}

StringRef heddle::memory::ownerOf(const Root &root) {
  if (root.kind == Root::Kind::Port)
    return "inputs and outputs";
  return "activations";
}
