//===- UpdateCutter.cpp - Splits updates of buckets -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UpdateCutter.h"
#include "heddle/Transforms/Common/States.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;

std::optional<SmallVector<Operation *>> spmd::writesOf(nn::UpdateOp update) {
  llvm::SetVector<Operation *> ops;
  SmallVector<Value> values(update.getOutputs());
  for (size_t i = 0; i < values.size(); ++i)
    for (Operation *user : values[i].getUsers()) {
      if (!isa<nn::SetOp, dist::AllGatherOp>(user))
        return std::nullopt;
      ops.insert(user);
      llvm::append_range(values, user->getResults());
    }
  SmallVector<Operation *> sorted = ops.takeVector();
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

/// Returns the bucket from which the flat tensor `flat` is read. Returns null
/// if `flat` is not read from a bucket. Also returns null if ranks split the
/// bucket, because a rank's shard may begin or end inside of a parameter.
nn::BucketOp UpdateCutter::bucketOf(Value flat) {
  auto get = flat.getDefiningOp<nn::GetOp>();
  auto bucket =
      get ? symbols.lookup<nn::BucketOp>(get.getState()) : nn::BucketOp();
  return bucket && !bucket.getElements() ? bucket : nn::BucketOp();
}

/// Divides the parameters of a bucket into ranges of adjacent parameters, and
/// returns the number of parameters in each range. `late` has the names of
/// gradients that are written only after the loop over micro-batches. All
/// gradients of a range are in `late`, or none are.
SmallVector<size_t> UpdateCutter::countsOf(nn::UpdateOp update, int64_t size,
                                           const llvm::StringSet<> &late) {
  auto namesOf = [&](Value flat) {
    return statesOf(symbols, bucketOf(flat).getSymName());
  };
  SmallVector<size_t> counts;
  int64_t elements = 0;
  bool wasLate = false;
  for (auto [name, gradient] : llvm::zip(namesOf(update.getParameter()),
                                         namesOf(update.getGradient()))) {
    auto state = symbols.lookup<nn::StateOp>(name);
    int64_t more = nn::paddedElements(state.getTensorType().getNumElements());
    bool isLate = late.contains(gradient);
    if (counts.empty() || elements + more > size || isLate != wasLate) {
      counts.push_back(0);
      elements = 0;
    }
    ++counts.back();
    elements += more;
    wasLate = isLate;
  }
  return counts;
}

/// Makes a bucket of `count` adjacent tensors of the bucket `whole`, beginning
/// with tensor number `first`. If the last tensor is among them, the new bucket
/// also gets the padding at the end of `whole`.
nn::BucketOp UpdateCutter::bucketOfMembers(nn::BucketOp whole, size_t first,
                                           size_t count, size_t number) {
  ArrayRef<Attribute> members = whole.getMembers().getValue();
  int64_t elements = 0, before = 0;
  for (auto [place, member] : llvm::enumerate(members)) {
    auto name = cast<FlatSymbolRefAttr>(member).getValue();
    int64_t padded = nn::paddedElements(
        symbols.lookup<nn::StateOp>(name).getTensorType().getNumElements());
    (place < first ? before : elements) += place < first + count ? padded : 0;
  }
  auto type = cast<RankedTensorType>(whole.getType());
  if (first + count == members.size())
    elements = type.getNumElements() - before;
  OpBuilder builder(step);
  std::string name = (whole.getSymName() + "." + Twine(number)).str();
  ArrayAttr own = builder.getArrayAttr(members.slice(first, count));
  // An earlier train program may have cut the bucket in the same way.
  if (auto known = symbols.lookup<nn::BucketOp>(name);
      known && known.getMembers() == own)
    return known;
  auto run = builder.create<nn::BucketOp>(whole.getLoc(), name, own,
                                          type.clone({elements}));
  if (auto storage = whole.getStorageAttr())
    run.setStorageAttr(storage);
  symbols.insert(run);
  return run;
}

SmallVector<nn::UpdateOp> UpdateCutter::cut(nn::UpdateOp update, int64_t size,
                                            const llvm::StringSet<> &late) {
  SmallVector<OpOperand *> flat;
  for (OpOperand &operand : update->getOpOperands())
    if (cast<RankedTensorType>(operand.get().getType()).getRank() > 0)
      flat.push_back(&operand);
  SmallVector<nn::SetOp> sets;
  SmallVector<Operation *> writes = *writesOf(update);
  for (Operation *op : writes)
    if (auto set = dyn_cast<nn::SetOp>(op))
      sets.push_back(set);
  bool isPlain =
      sets.size() == update.getOutputs().size() &&
      llvm::all_of(flat, [&](OpOperand *o) { return bucketOf(o->get()); });
  SmallVector<size_t> counts;
  if (isPlain)
    counts = countsOf(update, size, late);
  if (counts.size() < 2)
    return {update};
  SmallVector<nn::UpdateOp> parts;
  size_t first = 0;
  for (auto [number, count] : llvm::enumerate(counts)) {
    parts.push_back(writeUpdate(update, flat, sets, first, count, number));
    first += count;
  }
  erase(update, flat, sets);
  return parts;
}

nn::UpdateOp UpdateCutter::writeUpdate(nn::UpdateOp update,
                                       ArrayRef<OpOperand *> flat,
                                       ArrayRef<nn::SetOp> sets, size_t first,
                                       size_t count, size_t number) {
  OpBuilder builder(update);
  IRMapping mapping;
  llvm::StringMap<nn::BucketOp> buckets;
  auto bucketFor = [&](StringRef whole) {
    nn::BucketOp &run = buckets[whole];
    if (!run)
      run = bucketOfMembers(symbols.lookup<nn::BucketOp>(whole), first, count,
                            number);
    return run;
  };
  for (OpOperand *operand : flat) {
    nn::BucketOp run =
        bucketFor(operand->get().getDefiningOp<nn::GetOp>().getState());
    mapping.map(operand->get(),
                builder.create<nn::GetOp>(update.getLoc(), run.getType(),
                                          run.getSymName()));
  }
  auto part = cast<nn::UpdateOp>(builder.clone(*update, mapping));
  for (nn::SetOp set : sets) {
    nn::BucketOp run = bucketFor(set.getState());
    Value result = mapping.lookup(set.getValue());
    result.setType(run.getType());
    builder.create<nn::SetOp>(set.getLoc(), run.getSymName(), result);
  }
  return part;
}

/// Erases an optimizer update that was split, and the buckets that nothing uses
/// any more.
void UpdateCutter::erase(nn::UpdateOp update, ArrayRef<OpOperand *> flat,
                         ArrayRef<nn::SetOp> sets) {
  llvm::SetVector<Operation *> gets;
  llvm::SetVector<StringRef> names;
  for (OpOperand *operand : flat)
    gets.insert(operand->get().getDefiningOp());
  for (nn::SetOp set : sets) {
    names.insert(set.getState());
    set.erase();
  }
  update.erase();
  for (Operation *get : gets)
    if (get->use_empty())
      get->erase();
  for (StringRef name : names) {
    auto bucket = symbols.lookup<nn::BucketOp>(name);
    if (bucket && SymbolTable::symbolKnownUseEmpty(bucket, symbols.getOp()))
      symbols.erase(bucket);
  }
}
