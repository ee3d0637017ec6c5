//===- AttentionOrder.cpp - The order of rows under a layout --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With a layout of blocks, the first launch of attention sorts the blocks of
// queries, and for the gradient those of keys, by how many blocks of the other
// side they meet. Later launches give adjacent blocks of this order to a thread
// block. Thus the rows that see the most columns start first, and rows that see
// most columns do not share a thread block with rows that see few, for which it
// would copy the columns in vain.
//
// Only the logarithms of the counts are sorted, and counts below 16 are not
// told apart. Blocks of similar counts keep the order of the sequence, in which
// neighbors see many of the same columns.
//
// For the gradient of keys, the launch also transposes the layout, so that the
// bits of a block of keys are adjacent like those of a block of queries.
//
//===----------------------------------------------------------------------===//

#include "AttentionMapper.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

OrderScratch::OrderScratch(const codegen::AttentionSpec &spec,
                           bool isGradient) {
  if (isGradient)
    bytes = spec.batch * spec.heads * spec.seq *
            static_cast<int64_t>(sizeof(float));
  if (!spec.block)
    return;
  auto take = [&](int64_t numbers) {
    bytes = llvm::alignTo(bytes, accessBytes);
    int64_t offset = bytes;
    bytes += numbers * static_cast<int64_t>(sizeof(int32_t));
    return offset;
  };
  blocks = llvm::divideCeil(spec.seq, spec.block);
  words = llvm::divideCeil(blocks, 32);
  // A thread block may have rows of a few blocks, of which the last ones need
  // not exist.
  padded = llvm::alignTo(blocks, 8);
  tables = spec.layouts == 1 ? 1 : spec.heads;
  keyTables = !isGradient ? 0 : spec.layouts == 1 ? 1 : spec.kvHeads;
  order = take(allTables() * padded);
  classes = take(allTables() * padded);
  if (isGradient)
    columnBits = take(tables * blocks * words);
}

/// The first row of the layout's block that is at `place` among those of this
/// thread block's table.
Value AttentionMapper::blockInOrder(Value place) {
  Value order = numbersAt(orderScratch.order,
                          orderScratch.allTables() * orderScratch.padded);
  return i32.mul(loadNumber(order, i32.toIndex(i32.add(tableBegin, place))),
                 spec.block);
}

void AttentionMapper::placeRows(bool areKeys) {
  Value table = i32.constant(areKeys ? orderScratch.tables : 0);
  if (spec.layouts > 1)
    table = i32.add(table, headOfBlock);
  tableBegin = i32.mul(table, orderScratch.padded);
  Value number = i32.from(f.blockId(mlir::gpu::Dimension::x));
  if (hasRowsOfManyBlocks()) {
    Value place = i32.mul(number, numLayoutRows());
    for (int64_t i = 0; i < numLayoutRows(); ++i)
      firstRows.push_back(blockInOrder(i32.add(place, i)));
    firstRow = firstRows.front();
  } else {
    int64_t parts = spec.block / rowsOfBlock();
    firstRow = i32.add(blockInOrder(i32.div(number, parts)),
                       i32.mul(i32.rem(number, parts), rowsOfBlock()));
    firstRows = {firstRow};
  }
  placeWarp();
}

void AttentionMapper::placeWarp() {
  if (!hasRowsOfManyBlocks()) {
    firstOfWarp = i32.add(firstRow, i32.mul(warp, warpRows));
    return;
  }
  int64_t warpsOfBlock = spec.block / warpRows;
  Value number = i32.from(f.blockId(mlir::gpu::Dimension::x));
  Value place =
      i32.add(i32.mul(number, numLayoutRows()), i32.div(warp, warpsOfBlock));
  firstOfWarp = i32.add(blockInOrder(place),
                        i32.mul(i32.rem(warp, warpsOfBlock), warpRows));
}

Value AttentionMapper::numbersAt(int64_t offset, int64_t count) {
  return f.scratch(offset, {count}, f.builder.getI32Type());
}

namespace {
constexpr int64_t orderWarps = 16;
/// Counts below 2^leastLog are not told apart.
constexpr int64_t leastLog = 4;

/// The launch that sorts. A thread block sorts one table.
class OrderMapper : public AttentionMapper {
public:
  OrderMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
              nn::AttentionOpInterface op, const FrameOptions &options)
      : AttentionMapper(kernel, module, op, options) {}

  MappedLaunch emit();

private:
  using Body = llvm::function_ref<void(Value)>;

  void forEach(Value begin, int64_t end, int64_t step, Body body);
  Value isOne(Value bits, int64_t bit);
  Value wordOfRow(Value head, Value row, Value word);
  Value columnWordIndex(Value head, Value column, Value word);
  void transpose(Value firstHead, int64_t heads);
  Value sumOfBits(int64_t count, llvm::function_ref<Value(Value)> wordAt);
  void storeClass(Value table, Value block, Value count);
  void classify(Value table, Value isOfKeys, Value firstHead, int64_t heads);
  Value isOfClass(Value table, Value isReversed, Value number, Value wanted,
                  Value *block = nullptr);
  void sort(Value table, Value isReversed);
  int64_t numClasses() const {
    int64_t most = orderScratch.blocks * (spec.heads / spec.kvHeads);
    return std::max<int64_t>(llvm::Log2_64(most) - leastLog + 1, 0) + 1;
  }

  Value lane, classTable, orderTable, columns;
};
} // namespace

/// Emits a loop over the numbers from `begin` to `end`, in steps of `step`.
void OrderMapper::forEach(Value begin, int64_t end, int64_t step, Body body) {
  f.builder.create<scf::ForOp>(
      f.loc, begin, i32.constant(end), i32.constant(step), ValueRange(),
      [&](OpBuilder &b, Location loc, Value number, ValueRange) {
        body(number);
        b.create<scf::YieldOp>(loc);
      });
}

Value OrderMapper::isOne(Value bits, int64_t bit) {
  Value mask = i32.constant(static_cast<int32_t>(uint32_t(1) << bit));
  return f.builder.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ne,
                                         i32.bitsOfBoth(bits, mask),
                                         i32.constant(0));
}

/// The bits of the rank's blocks of keys 32 `word` to 32 `word` + 31, in block
/// `row` of the rank's queries.
Value OrderMapper::wordOfRow(Value head, Value row, Value word) {
  OpBuilder &b = f.builder;
  Value part = op.getPart() ? f.argumentScalar(op.getPart()) : Value();
  Value first = i32.mul(visible.layoutRow(head, i32.mul(row, spec.block), part),
                        spec.layoutWords());
  auto load = [&](Value at) {
    return loadNumber(f.argumentBuffer(op.getLayout()),
                      i32.toIndex(i32.add(first, at)));
  };
  if (spec.sequenceShards == 1)
    return load(word);
  // The rank's first block need not be the first one of a word.
  Value bit = i32.add(visible.firstKeyBlock(), i32.mul(word, 32));
  Value at = i32.div(bit, 32), shift = i32.rem(bit, 32);
  Value low = i32.shiftRight(load(at), shift);
  Value next = load(i32.min(i32.add(at, 1), spec.layoutWords() - 1));
  Value high = b.create<arith::ShLIOp>(
      f.loc, b.create<arith::ShLIOp>(f.loc, next, i32.constant(1)),
      i32.sub(i32.constant(31), shift));
  return b.create<arith::OrIOp>(f.loc, low, high);
}

/// The index in scratch memory of the bits of the rank's blocks of queries 32
/// `word` to 32 `word` + 31, in block `column` of its keys.
Value OrderMapper::columnWordIndex(Value head, Value column, Value word) {
  if (spec.layouts > 1)
    column = i32.add(column, i32.mul(head, orderScratch.blocks));
  return i32.toIndex(i32.add(i32.mul(column, orderScratch.words), word));
}

/// Transposes the layouts of `heads` heads from `firstHead` on. A warp
/// transposes 32 x 32 bits at a time.
void OrderMapper::transpose(Value firstHead, int64_t heads) {
  OpBuilder &b = f.builder;
  int64_t words = orderScratch.words, blocks = orderScratch.blocks;
  forEach(warp, heads * words * words, orderWarps, [&](Value tile) {
    Value head = i32.add(firstHead, i32.div(tile, words * words));
    Value inHead = i32.rem(tile, words * words);
    Value keyWord = i32.div(inHead, words), queryWord = i32.rem(inHead, words);
    Value row = i32.add(i32.mul(queryWord, 32), lane);
    Value bits = i32.select(i32.less(row, blocks),
                            wordOfRow(head, i32.min(row, blocks - 1), keyWord),
                            i32.constant(0));
    Value result = i32.constant(0);
    for (int64_t i = 0; i < warpSize; ++i) {
      Value isLane = b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::eq,
                                             lane, i32.constant(i));
      result = i32.select(isLane, ballot(isOne(bits, i)), result);
    }
    Value column = i32.add(i32.mul(keyWord, 32), lane);
    ifThen(i32.less(column, blocks), [&] {
      b.create<memref::StoreOp>(f.loc, result, columns,
                                columnWordIndex(head, column, queryWord));
    });
  });
}

/// The number of ones in `count` words, which the lanes of a warp read.
Value OrderMapper::sumOfBits(int64_t count,
                             llvm::function_ref<Value(Value)> wordAt) {
  OpBuilder &b = f.builder;
  auto loop = b.create<scf::ForOp>(
      f.loc, lane, i32.constant(count), i32.constant(warpSize), i32.constant(0),
      [&](OpBuilder &, Location loc, Value word, ValueRange carried) {
        Value ones = b.create<math::CtPopOp>(loc, wordAt(word));
        b.create<scf::YieldOp>(loc, i32.add(carried[0], ones));
      });
  Value sum = loop.getResult(0);
  for (int64_t distance = 1; distance < warpSize; distance *= 2)
    sum = i32.add(sum,
                  b.create<mlir::gpu::ShuffleOp>(f.loc, sum, distance, warpSize,
                                                 mlir::gpu::ShuffleMode::XOR)
                      .getShuffleResult());
  return sum;
}

/// Stores the class of a block that meets `count` blocks of the other side: 0
/// for a few, and then one class for each power of two.
void OrderMapper::storeClass(Value table, Value block, Value count) {
  OpBuilder &b = f.builder;
  Value log = i32.sub(i32.constant(31),
                      b.create<math::CountLeadingZerosOp>(f.loc, count));
  // Words may have more bits than there are blocks.
  Value number = i32.min(i32.max(i32.sub(log, i32.constant(leastLog - 1)), 0),
                         numClasses() - 1);
  Value at = i32.add(i32.mul(table, orderScratch.padded), block);
  ifThen(i32.less(lane, 1), [&] {
    b.create<memref::StoreOp>(f.loc, number, classTable, i32.toIndex(at));
  });
}

/// Finds the class of each block of queries, or of keys, of a table. The
/// layouts of a table of keys are those of `heads` heads from `firstHead` on.
void OrderMapper::classify(Value table, Value isOfKeys, Value firstHead,
                           int64_t heads) {
  int64_t words = orderScratch.words, blocks = orderScratch.blocks;
  auto ofQueries = [&] {
    forEach(warp, blocks, orderWarps, [&](Value row) {
      storeClass(table, row, sumOfBits(words, [&](Value word) {
                   return wordOfRow(table, row, word);
                 }));
    });
  };
  auto ofKeys = [&] {
    forEach(warp, blocks, orderWarps, [&](Value column) {
      storeClass(table, column, sumOfBits(heads * words, [&](Value word) {
                   Value head = i32.add(firstHead, i32.div(word, words));
                   return loadNumber(
                       columns,
                       columnWordIndex(head, column, i32.rem(word, words)));
                 }));
    });
  };
  if (!isOfKeys)
    return ofQueries();
  f.builder.create<scf::IfOp>(
      f.loc, isOfKeys,
      [&](OpBuilder &b, Location loc) {
        ofKeys();
        b.create<scf::YieldOp>(loc);
      },
      [&](OpBuilder &b, Location loc) {
        ofQueries();
        b.create<scf::YieldOp>(loc);
      });
}

/// Whether the class of block `number` is `wanted`. Blocks count from the last
/// one if `isReversed`. Gives the block's number from the first one in `block`.
Value OrderMapper::isOfClass(Value table, Value isReversed, Value number,
                             Value wanted, Value *block) {
  int64_t blocks = orderScratch.blocks;
  Value exists = i32.less(number, blocks);
  Value found = i32.min(number, blocks - 1);
  if (isReversed)
    found =
        i32.select(isReversed, i32.sub(i32.constant(blocks - 1), found), found);
  if (block)
    *block = found;
  Value at = i32.add(i32.mul(table, orderScratch.padded), found);
  Value here = loadNumber(classTable, i32.toIndex(at));
  Value isEqual = f.builder.create<arith::CmpIOp>(
      f.loc, arith::CmpIPredicate::eq, here, wanted);
  return i32.both(exists, isEqual);
}

/// Writes the order: blocks of high classes first. A warp writes all blocks of
/// a class. Blocks that do not exist are the last ones.
void OrderMapper::sort(Value table, Value isReversed) {
  OpBuilder &b = f.builder;
  int64_t blocks = orderScratch.blocks, classes = numClasses();
  Value totals = f.addWorkgroup({classes}, b.getI32Type());
  auto pass = [&](Value wanted, Value init, bool stores) {
    auto loop = b.create<scf::ForOp>(
        f.loc, i32.constant(0), i32.constant(blocks), i32.constant(warpSize),
        init, [&](OpBuilder &, Location loc, Value base, ValueRange carried) {
          Value block;
          Value isHere =
              isOfClass(table, isReversed, i32.add(base, lane), wanted, &block);
          Value lanes = ballot(isHere);
          if (stores)
            ifThen(isHere, [&] {
              Value at = i32.add(carried[0], bitsOfLowerLanes(lanes));
              at = i32.add(at, i32.mul(table, orderScratch.padded));
              b.create<memref::StoreOp>(loc, block, orderTable,
                                        i32.toIndex(at));
            });
          Value count = b.create<math::CtPopOp>(loc, lanes);
          b.create<scf::YieldOp>(loc, i32.add(carried[0], count));
        });
    return loop.getResult(0);
  };
  forEach(warp, classes, orderWarps, [&](Value wanted) {
    Value total = pass(wanted, i32.constant(0), /*stores=*/false);
    ifThen(i32.less(lane, 1), [&] {
      b.create<memref::StoreOp>(f.loc, total, totals, i32.toIndex(wanted));
    });
  });
  b.create<mlir::gpu::BarrierOp>(f.loc);
  forEach(warp, classes, orderWarps, [&](Value wanted) {
    Value first = i32.constant(0);
    for (int64_t other = 0; other < classes; ++other) {
      Value total = loadNumber(totals, f.constant(other));
      first = i32.add(
          first, i32.select(i32.less(wanted, other), total, i32.constant(0)));
    }
    pass(wanted, first, /*stores=*/true);
  });
  Value rest = i32.add(thread, blocks);
  ifThen(i32.less(rest, orderScratch.padded), [&] {
    Value at = i32.add(rest, i32.mul(table, orderScratch.padded));
    b.create<memref::StoreOp>(f.loc, i32.constant(blocks), orderTable,
                              i32.toIndex(at));
  });
}

MappedLaunch OrderMapper::emit() {
  OpBuilder &b = f.builder;
  const OrderScratch &at = orderScratch;
  thread = i32.from(f.threadId());
  warp = i32.div(thread, warpSize);
  lane = i32.rem(thread, warpSize);
  classTable = numbersAt(at.classes, at.allTables() * at.padded);
  orderTable = numbersAt(at.order, at.allTables() * at.padded);
  Value table = i32.from(f.blockId(mlir::gpu::Dimension::x));
  Value isOfKeys, isReversed, firstHead;
  int64_t heads = spec.layouts == 1 ? 1 : spec.heads / spec.kvHeads;
  if (at.keyTables) {
    columns = numbersAt(at.columnBits, at.tables * at.blocks * at.words);
    isOfKeys = i32.atLeast(table, i32.constant(at.tables));
    firstHead = i32.mul(i32.sub(table, i32.constant(at.tables)), heads);
    ifThen(isOfKeys, [&] { transpose(firstHead, heads); });
    b.create<mlir::gpu::BarrierOp>(f.loc);
  }
  classify(table, isOfKeys, firstHead, heads);
  b.create<mlir::gpu::BarrierOp>(f.loc);
  // Under a causal mask, the last queries see the most keys.
  if (spec.causal)
    isReversed = i32.less(table, at.tables);
  sort(table, isReversed);
  f.finish({at.allTables(), 1, 1}, orderWarps * warpSize);
  // Without this, ptxas spills registers to fit more blocks.
  f.func->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                  b.getI32IntegerAttr(1));
  return f.launch();
}

MappedLaunch mapAttentionOrder(planir::KernelOp kernel,
                               mlir::gpu::GPUModuleOp module,
                               nn::AttentionOpInterface op,
                               const FrameOptions &options) {
  return OrderMapper(kernel, module, op, options).emit();
}

} // namespace heddle::gpu
