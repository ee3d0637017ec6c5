//===- States.cpp - What states of a model are ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Common/States.h"
#include "Updates.h"
#include "heddle/runtime/io/CodedWeights.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::states;

SmallVector<StringRef> heddle::statesOf(const SymbolTable &symbols,
                                        StringRef name) {
  auto bucket = symbols.lookup<nn::BucketOp>(name);
  if (!bucket)
    return {name};
  return llvm::map_to_vector(
      bucket.getMembers().getAsRange<FlatSymbolRefAttr>(),
      [](FlatSymbolRefAttr member) { return member.getValue(); });
}

void heddle::eraseUnusedReads(Operation *root) {
  root->walk([](nn::GetOp get) {
    if (get.use_empty())
      get.erase();
  });
}

StringRef states::firstStateOf(const SymbolTable &symbols, StringRef name) {
  auto bucket = symbols.lookup<nn::BucketOp>(name);
  return bucket ? cast<FlatSymbolRefAttr>(bucket.getMembers()[0]).getValue()
                : name;
}

nn::MemoryKind heddle::memoryOf(const SymbolTable &symbols, StringRef name) {
  return symbols.lookup<nn::StateOp>(firstStateOf(symbols, name)).getMemory();
}

Location heddle::locationOf(ArrayRef<nn::StateOp> states) {
  nn::StateOp first = states.front();
  if (states.size() == 1)
    return first.getLoc();
  auto moduleOf = [](StringRef name) { return name.rsplit('.').first; };
  StringRef common = moduleOf(first.getSymName());
  for (nn::StateOp state : states)
    while (!common.empty() &&
           !state.getSymName().starts_with((common + ".").str()))
      common = common.contains('.') ? moduleOf(common) : "";
  if (common.empty())
    return first->getParentOp()->getLoc();
  return NameLoc::get(StringAttr::get(first.getContext(), common));
}

llvm::DenseSet<StringAttr> heddle::copiedIn(nn::ModelOp model) {
  llvm::DenseSet<StringAttr> copied;
  for (auto state : model.getOps<nn::StateOp>())
    if (state.isCopy())
      copied.insert(state.getParameterAttr());
  return copied;
}

bool heddle::isNamed(nn::StateOp parameter,
                     llvm::function_ref<bool(StringRef)> isMeant) {
  if (isMeant(parameter.getSymName()))
    return true;
  nn::SourceAttr source = parameter.getSourceAttr();
  return source && llvm::all_of(source.getLayout().pieces,
                                [&](const plan::WeightSlice &piece) {
                                  return isMeant(io::nameInFile(piece.tensor));
                                });
}

bool heddle::writesCache(Operation *op) {
  auto set = dyn_cast<nn::SetOp>(op);
  auto model = op->getParentOfType<nn::ModelOp>();
  if (!set || !model)
    return false;
  auto state = dyn_cast_or_null<nn::StateOp>(
      SymbolTable::lookupSymbolIn(model, set.getStateAttr()));
  return state && state.getRole() == nn::StateRole::Cache;
}
