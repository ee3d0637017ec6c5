//===- FetchRanges.cpp - States that are fetched together -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FetchRanges.h"
#include "dialects/Dist/ByteSize.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/runtime/io/OffloadFile.h"
#include "heddle/runtime/io/RowChoice.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;

BucketOffsets heddle::spmd::bucketOffsetsOf(nn::ModelOp model,
                                            const SymbolTable &symbols,
                                            bool gradients) {
  BucketOffsets offsets;
  for (auto bucket : model.getOps<nn::BucketOp>()) {
    SmallVector<StringRef> members = statesOf(symbols, bucket.getSymName());
    auto state = symbols.lookup<nn::StateOp>(members.front());
    if (state.getMemory() == nn::MemoryKind::Device ||
        (state.getRole() == nn::StateRole::Gradient) != gradients)
      continue;
    offsets[bucket.getSymName()] = {bucket, 0};
    int64_t first = 0;
    for (StringRef member : members) {
      offsets.try_emplace(member, BucketOffset{bucket, first});
      first += nn::paddedElements(
          elementsOf(symbols.lookup<nn::StateOp>(member).getType()));
    }
  }
  return offsets;
}

/// Whether a state begins at most `mostBetween` bytes after the end of a range,
/// so that one transfer fetches the range and the state.
static bool isNear(FetchRange &run, BucketOffset place, int64_t mostBetween) {
  Type element = getElementTypeOrSelf(run.bucket.getType());
  return run.bucket == place.bucket &&
         (place.first - run.end) * dist::byteSize(element) <= mostBetween;
}

std::vector<FetchRange>
heddle::spmd::fetchRangesOf(const llvm::StringMap<nn::GetOp> &gets,
                            const BucketOffsets &offsets, int64_t mostBetween) {
  SmallVector<nn::GetOp> order;
  for (auto &entry : gets)
    order.push_back(entry.second);
  auto offsetOf = [&](nn::GetOp get) { return offsets.lookup(get.getState()); };
  llvm::sort(order, [&](nn::GetOp a, nn::GetOp b) {
    return std::pair(offsetOf(a).bucket.getSymName(), offsetOf(a).first) <
           std::pair(offsetOf(b).bucket.getSymName(), offsetOf(b).first);
  });
  std::vector<FetchRange> found;
  for (nn::GetOp get : order) {
    BucketOffset place = offsetOf(get);
    int64_t elements = elementsOf(get.getValue().getType());
    int64_t end = place.first + nn::paddedElements(elements);
    if (place.bucket.getSymName() == get.getState())
      end = elements;
    else if (!found.empty() && isNear(found.back(), place, mostBetween)) {
      found.back().end = end;
      found.back().members.push_back(get);
      continue;
    }
    found.push_back({place.bucket, place.first, end, {get}});
  }
  return found;
}

bool heddle::spmd::fetchesRows(nn::EmbeddingOp embedding, int64_t element) {
  auto table = cast<RankedTensorType>(embedding.getTable().getType());
  auto output = cast<RankedTensorType>(embedding.getType());
  if (table.getElementType() != output.getElementType())
    return false;
  int64_t width = dist::byteSize(table.getElementType());
  int64_t columns = table.getDimSize(1), rowBytes = columns * width;
  int64_t rows = output.getNumElements() / columns;
  return rowBytes <= io::RowChoice::mostRowBytes &&
         rows * io::OffloadFile::bytesForRow(element * width, rowBytes) <
             dist::byteSize(table);
}

SmallVector<Value> heddle::spmd::unpack(OpBuilder &builder, Location loc,
                                        const FetchRange &run,
                                        const BucketOffsets &offsets,
                                        Value whole, int64_t first) {
  auto flat = cast<RankedTensorType>(whole.getType());
  int64_t end = first + flat.getNumElements();
  SmallVector<Type> types;
  SmallVector<unsigned> numbers;
  for (nn::GetOp get : run.members) {
    int64_t place = offsets.lookup(get.getState()).first;
    if (place > first)
      types.push_back(flat.clone({place - first}));
    numbers.push_back(types.size());
    types.push_back(get.getValue().getType());
    first = place + nn::paddedElements(elementsOf(types.back()));
  }
  if (types == SmallVector<Type>{flat})
    return {whole};
  if (first < end)
    types.push_back(flat.clone({end - first}));
  auto parts = builder.create<nn::UnpackOp>(loc, types, whole, nullptr);
  return llvm::map_to_vector(numbers, [&](unsigned number) -> Value {
    return parts.getResult(number);
  });
}
