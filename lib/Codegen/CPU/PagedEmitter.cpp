//===- PagedEmitter.cpp - Common code of paged attention ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PagedEmitter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>
#include <numeric>

using namespace mlir;

namespace heddle::cpu {

using Values = LoopBuilder::Values;

PagedEmitter::PagedEmitter(KernelEmitter &k, nn::PagedAttentionOp op,
                           int64_t blockSize)
    : CacheEmitter(k, op), parts(k, dims), group(heads / kv),
      partPages(op.getPartPages()), numParts(op.getNumParts()),
      inParts(op.getInParts()), blockSize(blockSize),
      keyVector(VectorType::get(pageTokens, f32)) {
  spec.scale = op.getHeads().getScale().convertToDouble();
  spec.softcap = op.getHeads().getSoftcap().convertToDouble();
  if (op.getMask().getWindow() < rowPages * pageTokens)
    spec.window = op.getMask().getWindow();
}

int64_t PagedEmitter::queriesOf(nn::PagedAttentionOp op) {
  return typeOf(op.getPositions()).getDimSize(1) * op.getHeads().getCount() /
         op.getHeads().getKv();
}

/// Returns query `index` among the queries of row `row` that read key head
/// `kvHead`.
PagedEmitter::Query PagedEmitter::query(Value row, Value kvHead, Value index) {
  Query query;
  if (tokens * group % blockSize != 0) {
    query.exists = b.less(index, b.constant(tokens * group));
    index = b.min(index, b.constant(tokens * group - 1));
  }
  Value token = b.div(index, group);
  query.head = b.add(b.mul(kvHead, group), b.sub(index, b.mul(token, group)));
  query.token = b.add(b.mul(row, tokens), token);
  query.isThere = b.less(token, loadInt(lengths, row));
  if (query.exists)
    query.isThere = b.create<arith::AndIOp>(query.isThere, query.exists);
  query.count = b.select(
      query.isThere, b.add(loadInt(positions, query.token), 1), b.constant(0));
  if (spec.window)
    query.first = b.sub(query.count, b.constant(spec.window));
  return query;
}

Values PagedEmitter::seesNothing() {
  Value none = b.constant(0);
  return {none, spec.window ? b.constant(rowPages * pageTokens) : none};
}

Values PagedEmitter::alsoSees(ValueRange seen, const Query &query) {
  Value firstKey = seen[1];
  if (spec.window)
    firstKey = b.select(query.isThere, b.min(firstKey, query.first), firstKey);
  return {largerOf(seen[0], query.count), firstKey};
}

PagedEmitter::QueryBlock PagedEmitter::blockOf(Value row, Value kvHead,
                                               Value first, ValueRange seen) {
  // Do not read pages that are entirely before the windows of all queries: such
  // pages may already belong to another request.
  Value firstPage = b.div(largerOf(seen[1], b.constant(0)), pageTokens);
  return {row,     kvHead,    first,
          seen[0], firstPage, b.ceilDiv(seen[0], pageTokens)};
}

PagedEmitter::Page PagedEmitter::pageAt(const QueryBlock &block, Value number) {
  Value in = page(block.row, number);
  return {pageOf(keys, in, block.kvHead), pageOf(values, in, block.kvHead),
          scales ? scalesOf(in, block.kvHead) : Value()};
}

Value PagedEmitter::firstPageOf(const QueryBlock &block, Value part) {
  return largerOf(b.mul(part, partPages), block.firstPage);
}

Value PagedEmitter::endOfPages(const QueryBlock &block, Value part) {
  return b.min(b.mul(b.add(part, 1), partPages), block.pageCount);
}

/// If the kernel returns partial results, the parts of a row's keys go to the
/// threads in turn. After the last page of part p, the thread of this part
/// continues with part p + (number of threads).
Value PagedEmitter::pageAhead(const QueryBlock &block, Value page, Value end) {
  Value ahead = b.add(page, pagesAhead);
  if (inParts) {
    Value others = b.mul(b.sub(k.self.threads, b.constant(1)), partPages);
    ahead = b.select(b.less(ahead, end), ahead, b.add(ahead, others));
  }
  return b.min(ahead, b.sub(block.pageCount, b.constant(1)));
}

Value PagedEmitter::capped(Value scores) {
  if (spec.softcap == 0)
    return scores;
  return b.create<arith::MulFOp>(b.create<math::TanhOp>(scores),
                                 splat(number(spec.capFactor()), keyVector));
}

Value PagedEmitter::hidden() {
  return b.create<arith::ConstantOp>(DenseElementsAttr::get(
      keyVector, -std::numeric_limits<float>::infinity()));
}

Value PagedEmitter::masked(Value scores, Value number, Value count,
                           Value first) {
  Value firstKey = b.mul(number, pageTokens);
  scores =
      b.select(b.mask(b.sub(count, firstKey), pageTokens), scores, hidden());
  if (spec.window)
    scores =
        b.select(b.mask(b.sub(first, firstKey), pageTokens), hidden(), scores);
  return scores;
}

/// Combines the two halves of the vector `keys`, then the halves of the result,
/// and so on, until one lane is left.
Value PagedEmitter::fold(Value keys,
                         llvm::function_ref<Value(Value, Value)> combine) {
  for (int64_t half = pageTokens / 2; half > 0; half /= 2) {
    SmallVector<int64_t> low(half), high(half);
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.end(), half);
    keys = combine(b.shuffle(keys, keys, low), b.shuffle(keys, keys, high));
  }
  return b.create<vector::ExtractOp>(keys, 0);
}

Value PagedEmitter::foldSum(Value keys) {
  return fold(keys, [&](Value x, Value y) -> Value {
    return b.create<arith::AddFOp>(x, y);
  });
}

Value PagedEmitter::foldLargest(Value keys) {
  return fold(keys, [&](Value x, Value y) { return larger(x, y); });
}

Value PagedEmitter::outputAt(Value output, const Query &query) {
  Value head = b.add(b.mul(query.token, heads), query.head);
  return b.advance(output, type, b.mul(head, dims));
}

Value PagedEmitter::partAt(Value output, const Query &query, Value part) {
  Value index = b.add(b.mul(query.token, numParts), part);
  index = b.add(b.mul(index, heads), query.head);
  return b.advance(output, f32, b.mul(index, parts.size()));
}

void PagedEmitter::storeOutput(Value output, const Query &query,
                               llvm::function_ref<Values()> joined) {
  auto store = [&] {
    parts.storeOutput(joined(), query.isThere, outputAt(output, query), type);
  };
  if (query.exists)
    b.ifThen(query.exists, store);
  else
    store();
}

void PagedEmitter::emit(Value output) {
  int64_t blocks = llvm::divideCeil(tokens * group, blockSize);
  int64_t itemParts = inParts ? numParts : 1;
  int64_t items = rows * kv * blocks * itemParts;
  auto emitItem = [&](Value item) {
    Value number = b.div(item, itemParts);
    Value headBlock = b.div(number, blocks);
    Value first = b.mul(b.sub(number, b.mul(headBlock, blocks)), blockSize);
    Value row = b.div(headBlock, kv);
    Value part = inParts ? b.sub(item, b.mul(number, itemParts)) : Value();
    emitBlock(row, b.sub(headBlock, b.mul(row, kv)), first, part, output);
  };
  // Threads take adjacent blocks of queries of a head, so that the head's keys
  // stay in the CPU's cache.
  if (!inParts)
    return k.self.forTaken(b, items, emitItem);
  // The keys of a row are cut into parts. Adjacent parts go to different
  // threads in a fixed order, so that a thread knows which page to prefetch.
  Value thread = k.self.thread, threads = k.self.threads;
  Value count =
      b.div(b.add(b.sub(b.constant(items - 1), thread), threads), threads);
  b.forLoop(b.constant(0), count, 1,
            [&](Value turn) { emitItem(b.add(b.mul(turn, threads), thread)); });
}

} // namespace heddle::cpu
