//===- AttentionKeys.cpp - Keys that blocks of queries see ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops over the keys that a block of queries sees, by mask, lengths and
// layout, and the shares of work of threads that follow from them.
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace heddle::cpu {

//===----------------------------------------------------------------------===//
// Ranges of keys
//===----------------------------------------------------------------------===//

void AttentionEmitter::forKeyRanges(Value head, Value firstQuery,
                                    function_ref<void(Value)> pack,
                                    function_ref<void(const KeyRange &)> body) {
  Value zero = b.constant(0);
  if (spec.block) {
    Value count = listBlocks(head, firstQuery, pack);
    int64_t most = blocking.keyBlock / spec.block;
    Value full = visible->endOf(firstQuery);
    b.forLoop(zero, count, most, [&](Value first) {
      Value blocks = minimum(b.sub(count, first), most);
      body({{},
            {},
            full,
            b.mul(blocks, spec.block),
            b.advance(list, b.builder.getI64Type(), first)});
    });
    return;
  }
  codegen::IntBuilder ints = integers();
  Value full = ints.floorTo(visible->endOf(firstQuery), blocking.keyUnit);
  Value end = ints.ceilTo(visible->endOfSome(firstQuery, blocking.queries()),
                          blocking.keyUnit);
  Value begin = zero, afterLead;
  if (Value oldest = visible->beginOf(firstQuery)) {
    begin = ints.floorTo(oldest, blocking.keyUnit);
    Value last = b.add(firstQuery, blocking.queries() - 1);
    afterLead = ints.ceilTo(visible->beginOf(last), blocking.keyUnit);
  }
  b.forLoop(begin, end, blocking.keyBlock, [&](Value first) {
    Value count = minimum(b.sub(end, first), blocking.keyBlock);
    Value lead;
    if (afterLead)
      lead = maximum(b.min(b.sub(afterLead, first), count), zero);
    Value whole = maximum(b.min(b.sub(full, first), count), lead ? lead : zero);
    body({first, lead, whole, count});
  });
}

AttentionEmitter::Values AttentionEmitter::forRuns(
    const KeyRange &range, ValueRange init,
    function_ref<Values(const KeyRun &, ValueRange)> body) {
  if (!range.blocks)
    return body({range.first, b.constant(0), range.end}, init);
  return b.forLoop(
      b.constant(0), range.end, spec.block, init,
      [&](Value row, ValueRange carried) {
        Type i64 = b.builder.getI64Type();
        Value key = b.load(
            i64, b.advance(range.blocks, i64, b.div(row, spec.block)), 8);
        return body({b.sub(key, row), row, b.add(row, spec.block)}, carried);
      });
}

void AttentionEmitter::forRuns(const KeyRange &range,
                               function_ref<void(const KeyRun &)> body) {
  forRuns(range, {}, [&](const KeyRun &run, ValueRange) -> Values {
    body(run);
    return {};
  });
}

void AttentionEmitter::forScoreTiles(
    const KeyRange &range, function_ref<void(const Tile &, Value, bool)> body) {
  auto forRows = [&](Value offset, Value begin, Value end, bool masked) {
    forTiles({begin, end}, blocking.queryGroups, [&](const Tile &tile) {
      body(tile, b.add(offset, tile.row), masked);
    });
  };
  if (range.blocks) {
    forRuns(range, [&](const KeyRun &run) {
      Value isEdge = b.less(range.full, b.add(run.offset, run.end));
      b.ifThen(
          isEdge, [&] { forRows(run.offset, run.begin, run.end, true); },
          [&] { forRows(run.offset, run.begin, run.end, false); });
    });
    return;
  }
  Value zero = b.constant(0);
  if (range.lead)
    forRows(range.first, zero, range.lead, true);
  forRows(range.first, range.lead ? range.lead : zero, range.full, false);
  forRows(range.first, range.full, range.end, true);
}

void AttentionEmitter::prepareKeys(const AttentionKeys &keys,
                                   const LayoutScratch &scratch) {
  if (keys.lengths)
    lengths = b.pointerTo(keys.lengths);
  if (keys.layout) {
    layout = b.pointerTo(keys.layout);
    layoutPart = keys.part;
    list = panel(scratch.list, 1).pointer;
    packed = panel(scratch.packed, 1).pointer;
    counts = panel(scratch.counts, 1).pointer;
  }
  visible.emplace(spec, integers(), keys.sequenceShard, keys.ringStep);
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

Value AttentionEmitter::layoutRow(Value head, Value firstQuery) {
  Value row = visible->layoutRow(head, firstQuery, layoutPart);
  return b.advance(layout, b.builder.getI32Type(),
                   b.mul(row, spec.layoutWords()));
}

void AttentionEmitter::forgetKeys() {
  // Scratch memory ends at a multiple of the longest vectors.
  int64_t words = llvm::alignTo(blocking.listed, blocking.lanes);
  fill({packed, words}, 1, 0.0);
}

void AttentionEmitter::forUnseenBlocks(function_ref<void(Value)> body) {
  Type i32 = b.builder.getI32Type();
  b.forLoop(b.constant(0), b.constant(blocking.listed - 1), 1,
            [&](Value block) {
              Value flag = b.load(i32, b.advance(packed, i32, block), 4);
              b.ifThen(b.equal(integers().from(flag), b.constant(0)),
                       [&] { body(b.mul(block, spec.block)); });
            });
}

Value AttentionEmitter::listBlocks(Value head, Value firstQuery,
                                   function_ref<void(Value)> pack) {
  Type i32 = b.builder.getI32Type(), i64 = b.builder.getI64Type();
  Value zero = b.constant(0), words = layoutRow(head, firstQuery);
  Value end = visible->endOfSome(firstQuery, blocking.queries());
  Value before = visible->firstKeyBlock();
  auto ofWord = [&](Value index, ValueRange count) -> Values {
    Value word = b.load(i32, b.advance(words, i32, index), 4);
    Value bits = integers().from(b.create<math::CtPopOp>(word));
    auto ofBit = [&](Value, ValueRange state) -> Values {
      Value bit = b.create<math::CountTrailingZerosOp>(state[1]);
      Value block =
          b.sub(b.add(b.mul(index, 32), integers().from(bit)), before);
      Value key = b.mul(block, spec.block);
      b.store(key, b.advance(list, i64, state[0]), 8);
      // A block that the rank does not hold, or that a mask hides, is
      // overwritten by the next one.
      Value isSeen = b.less(key, end);
      if (visible->firstKey())
        isSeen = b.create<arith::AndIOp>(isSeen, b.less(b.constant(-1), key));
      b.ifThen(isSeen, [&] {
        Value flag = b.advance(packed, i32, block);
        Value isPacked = integers().from(b.load(i32, flag, 4));
        b.ifThen(b.equal(isPacked, zero), [&] {
          pack(key);
          b.store(b.create<arith::ConstantOp>(b.builder.getI32IntegerAttr(1)),
                  flag, 4);
        });
      });
      Value next = b.select(isSeen, b.add(state[0], 1), state[0]);
      Value one = b.create<arith::ConstantOp>(b.builder.getI32IntegerAttr(1));
      Value rest = b.create<arith::AndIOp>(
          state[1], b.create<arith::SubIOp>(state[1], one));
      return {next, rest};
    };
    return {b.forLoop(zero, bits, 1, {count[0], word}, ofBit)[0]};
  };
  return b.forLoop(zero, b.constant(spec.layoutWords()), 1, zero, ofWord)[0];
}

//===----------------------------------------------------------------------===//
// Work of threads
//===----------------------------------------------------------------------===//

/// The fixed cost of a query, which does not depend on how many keys it sees.
/// The unit is the cost of one pair of a query and a key.
static constexpr int64_t queryCost = 16;

Value AttentionEmitter::costOfRow(Value batch) {
  Value keys = visible->countOf(lengthOf(batch));
  Value pairs = b.mul(keys, spec.seq);
  // Do not count the pairs of a query and a later key: a causal mask hides the
  // key, so the pair's score is not computed.
  if (spec.causal && !visible->firstQuery())
    pairs = b.sub(pairs, b.div(b.mul(keys, keys), 2));
  return b.add(pairs, queryCost * spec.seq);
}

std::pair<Value, Value> AttentionEmitter::share(Value thread, Value threads,
                                                int64_t itemsOfRow) {
  if (spec.block)
    return shareByLayout(thread, threads, itemsOfRow);
  Value next = b.add(thread, 1);
  if (!lengths) {
    Value items = b.constant(spec.batch * itemsOfRow);
    return {b.div(b.mul(items, thread), threads),
            b.div(b.mul(items, next), threads)};
  }
  Value zero = b.constant(0), batch = b.constant(spec.batch);
  Value total =
      b.forLoop(zero, batch, 1, zero, [&](Value row, ValueRange sum) -> Values {
        return {b.add(sum[0], costOfRow(row))};
      })[0];
  // Returns how many units of work, from the first row of the batch on, cost
  // `wanted` in total: all units of the rows that `wanted` pays for entirely,
  // and a share of the units of the next row.
  auto itemsOf = [&](Value wanted) {
    return b.forLoop(
        zero, batch, 1, {wanted, zero},
        [&](Value row, ValueRange state) -> Values {
          Value rest = state[0], cost = costOfRow(row);
          Value part = b.div(b.mul(rest, itemsOfRow), cost);
          Value isWhole = b.less(cost, b.add(rest, 1));
          return {
              b.select(isWhole, b.sub(rest, cost), zero),
              b.add(state[1], b.select(isWhole, b.constant(itemsOfRow), part))};
        })[1];
  };
  return {itemsOf(b.div(b.mul(total, thread), threads)),
          itemsOf(b.div(b.mul(total, next), threads))};
}

void AttentionEmitter::countBlocks() {
  Type i32 = b.builder.getI32Type();
  Value zero = b.constant(0);
  b.forLoop(zero, b.constant(blocking.counted), 1, [&](Value number) {
    Value head = b.div(number, blocking.queryBlocks);
    Value block = b.sub(number, b.mul(head, blocking.queryBlocks));
    Value words = layoutRow(head, b.mul(block, blocking.queries()));
    Value none = b.create<arith::ConstantOp>(b.builder.getI32IntegerAttr(0));
    Value sum = b.forLoop(zero, b.constant(spec.layoutWords()), 1, none,
                          [&](Value index, ValueRange count) -> Values {
                            Value word =
                                b.load(i32, b.advance(words, i32, index), 4);
                            Value bits = b.create<math::CtPopOp>(word);
                            return {b.create<arith::AddIOp>(count[0], bits)};
                          })[0];
    b.store(sum, b.advance(counts, i32, number), 4);
  });
}

Value AttentionEmitter::costOfItem(Value batch, Value item,
                                   int64_t itemsOfRow) {
  int64_t blocks = spec.heads * blocking.queryBlocks / itemsOfRow;
  Type i32 = b.builder.getI32Type();
  Value zero = b.constant(0), keys = visible->countOf(lengthOf(batch));
  Value first = b.mul(item, blocks);
  auto ofBlock = [&](Value number, ValueRange sum) -> Values {
    if (spec.layouts == 1)
      number = b.sub(number, b.mul(b.div(number, blocking.queryBlocks),
                                   blocking.queryBlocks));
    Value count = b.load(i32, b.advance(counts, i32, number), 4);
    return {b.add(sum[0], integers().from(count))};
  };
  Value pairs = b.forLoop(first, b.add(first, blocks), 1, zero, ofBlock)[0];
  // A padded row has the same layout, but a part of its keys.
  pairs = b.div(b.mul(b.mul(pairs, keys), spec.block), spec.seq);
  return b.add(pairs, queryCost * blocks);
}

std::pair<Value, Value> AttentionEmitter::shareByLayout(Value thread,
                                                        Value threads,
                                                        int64_t itemsOfRow) {
  countBlocks();
  Value zero = b.constant(0), batch = b.constant(spec.batch);
  auto forItems = [&](ValueRange init,
                      function_ref<Values(Value, ValueRange)> body) {
    return b.forLoop(zero, batch, 1, init, [&](Value row, ValueRange outer) {
      return b.forLoop(zero, b.constant(itemsOfRow), 1, outer,
                       [&](Value item, ValueRange inner) {
                         return body(costOfItem(row, item, itemsOfRow), inner);
                       });
    });
  };
  Value total = forItems(zero, [&](Value cost, ValueRange sum) -> Values {
    return {b.add(sum[0], cost)};
  })[0];
  // A thread gets the items before which the cost is in its share.
  Value from = b.div(b.mul(total, thread), threads);
  Value to = b.div(b.mul(total, b.add(thread, 1)), threads);
  auto countBefore = [&](Value before, Value bound, Value count) {
    return b.select(b.less(before, bound), b.add(count, 1), count);
  };
  Values found =
      forItems({zero, zero, zero}, [&](Value cost, ValueRange state) -> Values {
        return {b.add(state[0], cost), countBefore(state[0], from, state[1]),
                countBefore(state[0], to, state[2])};
      });
  return {found[1], found[2]};
}

} // namespace heddle::cpu
