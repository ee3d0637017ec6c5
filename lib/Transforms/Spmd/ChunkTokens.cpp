//===- ChunkTokens.cpp - Computes token-wise operations by chunks ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `spmd-chunk-tokens`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "Slices.h"
#include "dialects/Dist/DistDialect.h"
#include "heddle/Transforms/Common/TokenRegions.h"
#include "heddle/Transforms/Spmd/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;

namespace heddle {
#define GEN_PASS_DEF_SPMDCHUNKTOKENS
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

/// A chunk of tokens: a range of the micro-batch's rows, and in each of these
/// rows the same range of positions.
struct Chunk {
  int64_t row, rows, token, tokens;
};

/// Divides [0, count) into ranges of at most `most` elements. All ranges have
/// the same length, except that the last one may be shorter. Returns the first
/// element and the length of each.
SmallVector<std::pair<int64_t, int64_t>> piecesOf(int64_t count, int64_t most) {
  int64_t pieces = llvm::divideCeil(count, most);
  int64_t length = llvm::divideCeil(count, pieces);
  SmallVector<std::pair<int64_t, int64_t>> result;
  for (int64_t first = 0; first < count; first += length)
    result.push_back({first, std::min(length, count - first)});
  return result;
}

/// Divides the tokens of a region (operations that compute each token
/// independently) into chunks of at most `most` tokens. If a row has at most
/// `most` tokens, each chunk has one or more complete rows. Otherwise, if there
/// are at most `most` rows, each chunk has the same range of positions of all
/// rows. Otherwise each chunk has a range of positions of one row.
SmallVector<Chunk> chunksOf(const TokenRegion &region, int64_t most) {
  bool wholeRows = most >= region.tokens, allRows = most >= region.rows;
  int64_t rows = wholeRows ? most / region.tokens : allRows ? region.rows : 1;
  int64_t tokens = wholeRows ? region.tokens
                   : allRows ? most / region.rows
                             : most;
  SmallVector<Chunk> chunks;
  for (auto [row, numRows] : piecesOf(region.rows, std::min(rows, region.rows)))
    for (auto [token, numTokens] : piecesOf(region.tokens, tokens))
      chunks.push_back({row, numRows, token, numTokens});
  return chunks;
}

/// Computes a region (operations that compute each token independently) one
/// chunk of tokens at a time, by copying the operations for each chunk.
class Chunker {
public:
  Chunker(const TokenRegion &region, int64_t most)
      : region(region), chunks(chunksOf(region, most)),
        first(region.ops.front()), builder(first) {
    for (Operation *op : region.ops)
      splits[op] = *region.splitOf(op);
  }

  size_t numChunks() const { return chunks.size(); }

  /// Whether the operations of the region can be computed in chunks of tokens:
  /// every value that they read from outside must be available before the
  /// region's first operation, or be computable there.
  bool isReady() {
    return llvm::all_of(region.ops, [&](Operation *op) {
      return llvm::all_of(op->getOperands(),
                          [&](Value value) { return canMove(value); });
    });
  }

  void run() {
    for (Operation *op : region.ops)
      for (Value operand : op->getOperands())
        moveUp(operand);
    for (const Chunk &chunk : chunks)
      compute(chunk);
    for (Operation *op : region.ops)
      for (OpResult result : op->getResults())
        if (isReadOutside(result))
          result.replaceUsesWithIf(whole(result), [&](OpOperand &use) {
            return !region.ops.contains(use.getOwner());
          });
    for (Operation *op : llvm::reverse(region.ops))
      op->erase();
  }

private:
  /// Returns the operation that defines `value` if it comes after the region's
  /// first operation and is not in the region. Otherwise returns null.
  Operation *laterMaker(Value value) const {
    Operation *op = value.getDefiningOp();
    bool isLater = op && op->getBlock() == first->getBlock() &&
                   first->isBeforeInBlock(op) && !region.ops.contains(op);
    return isLater ? op : nullptr;
  }

  bool canMove(Value value) const {
    Operation *op = laterMaker(value);
    if (!op)
      return true;
    if (auto get = dyn_cast<nn::GetOp>(op))
      for (Operation *other = first; other != op; other = other->getNextNode())
        if (auto set = dyn_cast<nn::SetOp>(other);
            set && set.getState() == get.getState())
          return false;
    if (!isa<nn::GetOp>(op) && !isMemoryEffectFree(op))
      return false;
    return llvm::all_of(op->getOperands(),
                        [&](Value operand) { return canMove(operand); });
  }

  void moveUp(Value value) {
    Operation *op = laterMaker(value);
    if (!op)
      return;
    for (Value operand : op->getOperands())
      moveUp(operand);
    op->moveBefore(first);
  }

  bool isReadOutside(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return !region.ops.contains(user);
    });
  }

  /// Returns the type of a chunk's slice of `value`. The value has one entry
  /// for each token of the region, or several if it was all-gathered. The slice
  /// has equally many entries for each token of the chunk.
  RankedTensorType partType(Value value, const Chunk &chunk) const {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[0] = shape[0] / region.rows * chunk.rows;
    shape[1] = shape[1] / region.tokens * chunk.tokens;
    return type.clone(shape);
  }

  /// Slices elements [begin, begin + length) of one dimension.
  Value slice(Value value, unsigned dim, int64_t begin, int64_t length) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getDimSize(dim) == length)
      return value;
    Value place = builder.create<arith::ConstantIndexOp>(value.getLoc(), begin);
    return sliceOf(builder, value, dim, place, length);
  }

  Value partOf(Value value, const Chunk &chunk) {
    Value rows = slice(value, 0, chunk.row, chunk.rows);
    return slice(rows, 1, chunk.token, chunk.tokens);
  }

  Value castTo(Value value, Type element) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getElementType() == element)
      return value;
    return builder.create<nn::CastOp>(value.getLoc(), type.clone(element),
                                      value, ArrayAttr());
  }

  void compute(const Chunk &chunk) {
    IRMapping here;
    for (Operation *op : region.ops) {
      const TokenSplit &split = splits[op];
      for (OpOperand &operand : op->getOpOperands())
        if (split.operands[operand.getOperandNumber()] &&
            !here.contains(operand.get()))
          here.map(operand.get(), partOf(operand.get(), chunk));
      Operation *copy = builder.clone(*op, here);
      for (auto [original, result] :
           llvm::zip(op->getOpResults(), copy->getResults())) {
        if (!split.results[original.getResultNumber()])
          continue;
        result.setType(partType(original, chunk));
        if (isReadOutside(original))
          parts[original].push_back(result);
      }
      addUp(op, copy);
    }
  }

  /// Lets a chunk's sums over tokens start with the sums of the previous chunk.
  /// The sums are kept in f32, so that only the final sum is rounded.
  void addUp(Operation *op, Operation *copy) {
    SmallVector<nn::Init> originals = nn::sumsOf(op);
    for (auto [index, original] : llvm::enumerate(originals)) {
      if (splits[op].results[cast<OpResult>(original.result).getResultNumber()])
        continue;
      // Ask for the list of sums again each time, because adding an operand
      // moves the operands after it.
      nn::Init sum = nn::sumsOf(copy)[index];
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(copy);
      Value &before = sums[original.result];
      if (!before && !original.operand.empty())
        before = castTo(original.operand[0].get(), builder.getF32Type());
      if (before)
        sum.operand.assign(before);
      auto type = cast<RankedTensorType>(sum.result.getType());
      sum.result.setType(type.clone(builder.getF32Type()));
      before = sum.result;
    }
  }

  /// Joins the results of all chunks of tokens.
  Value whole(OpResult result) {
    if (Value sum = sums.lookup(result))
      return castTo(sum, getElementTypeOrSelf(result));
    SmallVector<Value> rows, row;
    for (auto [chunk, part] : llvm::zip(chunks, parts[result])) {
      row.push_back(part);
      if (chunk.token + chunk.tokens < region.tokens)
        continue;
      rows.push_back(concatOf(builder, std::move(row), 1));
      row.clear();
    }
    return concatOf(builder, std::move(rows), 0);
  }

  const TokenRegion &region;
  SmallVector<Chunk> chunks;
  Operation *first;
  OpBuilder builder;
  DenseMap<Operation *, TokenSplit> splits;
  /// For each original result that is a sum over tokens, the sum over those
  /// tokens that were computed so far.
  DenseMap<Value, Value> sums;
  /// For each original result that is not a sum over tokens, the results of all
  /// chunks.
  DenseMap<Value, SmallVector<Value>> parts;
};

struct ChunkTokens : heddle::impl::SpmdChunkTokensBase<ChunkTokens> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    const dist::Strategy &strategy = model.getStrategy().getValue();
    if (strategy.chunkTokens == 0 || strategy.mode != config::Mode::Train)
      return;
    SmallVector<Block *> blocks;
    model.walk([&](Block *block) { blocks.push_back(block); });
    for (Block *block : blocks)
      chunk(*block, strategy.chunkTokens);
  }

private:
  void chunk(Block &block, int64_t most) {
    for (const TokenRegion &region : findTokenRegions(block)) {
      Chunker chunker(region, most);
      if (region.rows * region.tokens <= most || !chunker.isReady())
        continue;
      numChunks += chunker.numChunks();
      chunker.run();
    }
  }
};

} // namespace
