//===- Layout.cpp - States in the persistent region, owners of bytes ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layout.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

static StringRef ownerOfRole(StringRef role) {
  if (role == "parameter")
    return "parameters";
  if (role == "compute-copy")
    return "parameters in compute precision";
  if (role == "gradient")
    return "gradients";
  if (role == "exp_avg" || role == "exp_avg_sq")
    return "optimizer";
  return "accumulators";
}

MemoryMap heddle::memory::layOutStates(nn::ModelOp model,
                                       planir::ProgramOp program) {
  MemoryMap map;
  OpBuilder builder = OpBuilder::atBlockEnd(program.getBodyBlock());
  DenseSet<Operation *> placed;
  SymbolTable symbols(model);
  auto place = [&](nn::StateOp state) {
    if (!placed.insert(state).second)
      return;
    NamedAttrList like(state->getAttrs());
    like.erase("sym_name");
    like.erase("type");
    builder.create<planir::StateOp>(state.getLoc(), state.getSymName(),
                                    state.getType(), map.persistentBytes,
                                    like.getDictionary(builder.getContext()));
    RankedTensorType type = state.getTensorType();
    int64_t bytes = nn::paddedElements(type.getNumElements()) *
                    type.getElementTypeBitWidth() / 8;
    map.owners[ownerOfRole(state.getRole()).str()] += bytes;
    map.persistentBytes += bytes;
  };
  for (auto bucket : model.getOps<nn::BucketOp>())
    for (auto member : bucket.getMembers().getAsRange<FlatSymbolRefAttr>())
      place(symbols.lookup<nn::StateOp>(member.getValue()));
  for (auto state : model.getOps<nn::StateOp>())
    place(state);
  return map;
}

StringRef heddle::memory::ownerOf(const Root &root) {
  if (root.kind == Root::Kind::Port)
    return "inputs and outputs";
  return "activations";
}

std::map<std::string, int64_t> heddle::memory::ownersAtPeak(Storage &storage) {
  SmallVector<std::pair<Interval, StringRef>> buffers;
  for (Root &root : storage.all())
    if (root.kind == Root::Kind::Frame || root.kind == Root::Kind::Port)
      buffers.push_back({root.interval, ownerOf(root)});
  for (auto &[call, frame] : storage.callFrames())
    buffers.push_back({frame, "working memory of layers"});
  int64_t most = -1;
  std::map<std::string, int64_t> owners;
  for (auto &[at, unused] : buffers) {
    std::map<std::string, int64_t> here;
    int64_t total = 0;
    for (auto &[interval, owner] : buffers)
      if (interval.first <= at.first && at.first <= interval.last) {
        here[owner.str()] += alignTo(interval.bytes, alignment);
        total += alignTo(interval.bytes, alignment);
      }
    if (total > most) {
      most = total;
      owners = here;
    }
  }
  return owners;
}
