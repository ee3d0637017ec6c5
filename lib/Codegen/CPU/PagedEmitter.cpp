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
    : CacheEmitter(k, op), seenKeys(op), parts(k, dims, seenKeys.maySeeNoKey()),
      group(heads / kv), partPages(op.getPartPages()),
      numParts(op.getNumParts()), inParts(op.getInParts()),
      blockSize(blockSize), keyVector(VectorType::get(pageTokens, f32)) {
  spec.scale = op.getHeads().getScale().convertToDouble();
  spec.softcap = op.getHeads().getSoftcap().convertToDouble();
  if (!seenKeys.hasLayout())
    return;
  layout = k.pointerOf(op.getLayout());
  if (op.getPart())
    headShard = k.evaluator.scalarOf(op.getPart());
  pageList = k.reserve(partPages * int64_t(sizeof(int64_t)));
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
  query.first = seenKeys.firstOf(integers(), query.count);
  if (layout)
    query.words =
        seenKeys.firstWord(integers(), query.head, query.count, headShard);
  return query;
}

Values PagedEmitter::seesNothing() {
  Value none = b.constant(0);
  return {none, seenKeys.hasFirst() ? b.constant(rowPages * pageTokens) : none};
}

Values PagedEmitter::alsoSees(ValueRange seen, const Query &query) {
  Value firstKey = seen[1];
  if (query.first)
    firstKey = b.select(query.isThere, b.min(firstKey, query.first), firstKey);
  return {largerOf(seen[0], query.count), firstKey};
}

PagedEmitter::QueryBlock PagedEmitter::blockOf(Value row, Value kvHead,
                                               Value first, ValueRange seen) {
  // Do not read pages that are entirely before the windows of all queries: such
  // pages may already belong to another request.
  Value firstPage = b.div(seen[1], pageTokens);
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

Value PagedEmitter::bitsOf(Value words, Value count, Value part) {
  Type i32 = b.builder.getI32Type();
  codegen::IntBuilder ints = integers();
  Value index = b.add(words, seenKeys.wordOf(ints, part));
  Value word = b.load(i32, b.advance(layout, i32, index), sizeof(int32_t));
  return b.select(b.less(b.constant(0), count),
                  seenKeys.bitsOf(ints, word, part), b.constant(0));
}

/// The bits of the keys of page `number`, of those of its part.
Value PagedEmitter::bitsOfPage(Value bits, Value number) {
  Value first = b.mul(b.rem(number, partPages), pageTokens);
  return seenKeys.bitsOfKeys(integers(), bits, first, pageTokens);
}

PagedEmitter::PartPages PagedEmitter::pagesOf(const QueryBlock &block,
                                              Value part, Value bits) {
  Value begin = firstPageOf(block, part), end = endOfPages(block, part);
  if (!bits)
    return {begin, end};
  Value zero = b.constant(0);
  Type i64 = b.builder.getI64Type();
  Value count = b.forLoop(
      begin, end, 1, zero, [&](Value number, ValueRange carried) -> Values {
        // The next page overwrites one that no query sees.
        b.store(number, b.advance(pageList, i64, carried[0]), sizeof(int64_t));
        Value isSeen = b.less(zero, bitsOfPage(bits, number));
        return {b.select(isSeen, b.add(carried[0], 1), carried[0])};
      })[0];
  return {zero, count};
}

Value PagedEmitter::numberOf(Value index) {
  Type i64 = b.builder.getI64Type();
  return layout ? b.load(i64, b.advance(pageList, i64, index), sizeof(int64_t))
                : index;
}

/// If the kernel returns partial results, the parts of a row's keys go to the
/// threads in turn. After the last page of part p, the thread of this part
/// continues with part p + (number of threads).
Value PagedEmitter::pageAhead(const QueryBlock &block, const PartPages &pages,
                              Value index) {
  Value ahead = b.add(index, pagesAhead), end = pages.end;
  if (layout)
    return numberOf(b.min(ahead, b.sub(end, b.constant(1))));
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

Value PagedEmitter::masked(Value scores, Value number, const Query &query) {
  Value firstKey = b.mul(number, pageTokens);
  scores = b.select(b.mask(b.sub(query.count, firstKey), pageTokens), scores,
                    hidden());
  if (query.first)
    scores = b.select(b.mask(b.sub(query.first, firstKey), pageTokens),
                      hidden(), scores);
  return query.bits ? maskedByBlocks(scores, bitsOfPage(query.bits, number))
                    : scores;
}

/// Sets scores of a page's keys to -infinity unless their block's bit is set.
Value PagedEmitter::maskedByBlocks(Value scores, Value bits) {
  int64_t block = seenKeys.blockKeys();
  if (pageTokens <= block)
    return b.select(b.less(b.constant(0), bits), scores, hidden());
  SmallVector<int32_t> bitOfKey(pageTokens);
  for (int64_t key = 0; key < pageTokens; ++key)
    bitOfKey[key] = 1 << (key / block);
  codegen::IntBuilder lanes(
      b.builder, b.loc, VectorType::get(pageTokens, b.builder.getI32Type()));
  Value mask =
      b.create<arith::ConstantOp>(b.builder.getI32VectorAttr(bitOfKey));
  Value isSeen =
      lanes.less(lanes.constant(0), lanes.bitsOfBoth(lanes.from(bits), mask));
  return b.select(isSeen, scores, hidden());
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
