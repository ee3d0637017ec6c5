//===- AttentionEmitter.h - Common code of attention's kernels --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The common part of attention's forward pass (Attention.cpp) and gradient
// (AttentionGrad.cpp): blocking, panels (matrices of 32-bit words in scratch
// memory), products of panels, visible keys, dropout.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_ATTENTIONEMITTER_H
#define HEDDLE_LIB_CODEGEN_CPU_ATTENTIONEMITTER_H

#include "heddle/Codegen/CPU/Attention.h"
#include "heddle/Codegen/CPU/LoopBuilder.h"
#include <array>

namespace heddle::cpu {

/// A range of columns that is cut into `count` tiles side by side, each
/// `vectors` vectors wide. The range begins at vector `first` of a row.
struct ColumnGroup {
  int64_t first, count, vectors;
};

/// How one nn.attention is cut into blocks. Scores are stored transposed: a row
/// is a key, and the lanes of its vectors are queries.
///
/// The factors of products are copied to panels: matrices of 32-bit words in
/// scratch memory. A word is one f32, or two bf16 that are adjacent in the
/// dimension that the product sums over. For products that sum over features, a
/// word of a "natural" panel holds two adjacent features of one row. For
/// products that sum over rows, a word of a "paired" panel holds the same
/// feature of two adjacent rows. With f32 the two kinds of panels are the same.
struct AttentionBlocking {
  AttentionBlocking(const AttentionSpec &spec, const CpuTarget &target,
                    int64_t maxKeyBlock);

  int64_t lanes;
  int64_t pairs;        ///< Elements in a word: 1 or 2.
  int64_t widest;       ///< The largest number of vectors in a row of a tile.
  int64_t headVectors;  ///< Vectors of a head's features, with padding.
  int64_t queryVectors; ///< Vectors in one row of scores.
  int64_t queryBlocks;  ///< Blocks of queries in the sequence.
  int64_t keyUnit;      ///< Ranges of keys begin and end at multiples of this.
  int64_t keys;         ///< The number of keys, rounded up to `keyUnit`.
  int64_t keyBlock;     ///< The largest number of keys in a range.
  /// Blocks of a layout in the rank's keys, and room for one that the rank does
  /// not hold, which `listBlocks` writes and then ignores.
  int64_t listed = 0;
  /// Blocks of queries for which a layout differs: those of all heads, or of
  /// one if all heads have the same layout.
  int64_t counted = 0;
  llvm::SmallVector<ColumnGroup> headGroups, queryGroups;

  int64_t headRow() const { return headVectors * lanes; }
  int64_t queries() const { return queryVectors * lanes; }
  int64_t naturalRow() const {
    return (headRow() / pairs + lanes - 1) / lanes * lanes;
  }
  int64_t scorePanel() const { return keyBlock * queries(); }
  /// The number of rows of a tile that is `vectors` vectors wide. A product
  /// keeps the sums of a tile in registers.
  int64_t tileRows(int64_t vectors) const;
  /// How many words of the depth of a product that sums over keys an iteration
  /// multiplies.
  int64_t keyUnroll() const { return hasLayout ? 4 : 3; }

private:
  bool hasLayout;
};

/// Assigns aligned offsets, in words, in a thread's scratch memory.
class ScratchPlan {
public:
  int64_t take(int64_t words) {
    int64_t offset = size;
    size += (words + 15) / 16 * 16;
    return offset;
  }
  int64_t bytes() const { return size * 4; }

private:
  int64_t size = 0;
};

/// Scratch memory that kernels with a layout need, as offsets in words.
struct LayoutScratch {
  LayoutScratch(const AttentionBlocking &blocking, ScratchPlan &plan)
      : list(plan.take(2 * blocking.listed)),
        packed(plan.take(blocking.listed)),
        counts(plan.take(blocking.counted)) {}
  int64_t list;   ///< The first keys of blocks, of 64 bits.
  int64_t packed; ///< For each block of keys whether it is in a panel (i32).
  int64_t counts; ///< For blocks of queries how many blocks they see (i32).
};

/// Emits the code that the forward pass and the gradient share.
class AttentionEmitter {
protected:
  using Values = LoopBuilder::Values;

  AttentionEmitter(LoopBuilder &b, const AttentionSpec &spec,
                   const AttentionBlocking &blocking, mlir::Value scratch);

  /// q, k or v in a tensor [batch, seq, row]: the address of its first element,
  /// and the number of columns of the tensor's rows.
  struct Heads {
    mlir::Value pointer;
    int64_t row;
  };
  /// Finds q, k and v, or their gradients. `tensors` holds either one packed
  /// tensor or three separate tensors.
  std::array<Heads, 3> splitHeads(mlir::ValueRange tensors);
  /// The heads of a tensor [batch, seq, heads * headDim].
  Heads queryHeads(mlir::Value tensor);
  /// The address of row `row` of head `head`.
  mlir::Value rowPointer(const Heads &heads, mlir::Value batch,
                         mlir::Value head, mlir::Value row);

  /// A matrix of 32-bit words in scratch memory. AttentionBlocking describes
  /// the two layouts of words, natural and paired. Word (i, j) is at i * row +
  /// j * column.
  struct Panel {
    mlir::Value pointer;
    int64_t row, column = 1;
  };
  Panel panel(int64_t scratchOffset, int64_t row);
  Panel rowsFrom(const Panel &panel, mlir::Value first);
  Panel columnsFrom(const Panel &panel, mlir::Value first);
  static Panel transposed(const Panel &panel) {
    return {panel.pointer, panel.column, panel.row};
  }
  mlir::Value vectorAt(const Panel &panel, int64_t row, int64_t vector);
  mlir::Value loadVector(mlir::Value pointer);
  void storeVector(mlir::Value value, mlir::Value pointer);
  /// Stores a vector of f32 in a natural panel, where a 32-bit word has one f32
  /// or two adjacent bf16 of a row.
  void storeNatural(mlir::Value value, const Panel &panel, int64_t row,
                    int64_t vector);
  /// Rounds two vectors of f32 to bf16: `even` and `odd` from two adjacent
  /// rows. Stores them in a paired panel, where a 32-bit word has the bf16
  /// elements of both rows in one column.
  void storePaired(mlir::Value even, mlir::Value odd, mlir::Value pointer);
  mlir::Value loadSplat(mlir::Value pointer);
  mlir::Value splat(mlir::Value scalar, mlir::VectorType type);
  mlir::Value splat(double value);

  /// Copies `rows` rows of a head, `stride` elements apart, from `source` to
  /// the panel `to`, without changing the order of elements (natural panel).
  /// Fills further rows of the panel, up to `total`, with zeros.
  void packRows(mlir::Value source, int64_t stride, mlir::Value rows,
                mlir::Value total, const Panel &to);
  /// Prefetches `count` rows of a head from row `first` on, or those that
  /// exist, into the second-level cache. Rows of a head are far apart, so that
  /// processors do not prefetch them by themselves.
  void prefetchRows(const Heads &heads, mlir::Value batch, mlir::Value head,
                    mlir::Value first, int64_t count);
  /// Loads or stores one vector of f32 of a head's features. `row` is the
  /// address of the features of one token; `vector` is the index of the vector
  /// among them.
  mlir::Value loadHead(mlir::Value row, int64_t vector);
  void storeHead(mlir::Value value, mlir::Value row, int64_t vector);
  /// Converts `rows` rows of `from` to `to`. In `from` a 32-bit word holds two
  /// adjacent bf16 of a row (natural panel); in `to` it holds one bf16 of each
  /// of two adjacent rows (paired panel). With f32 both layouts are the same,
  /// so nothing is emitted.
  void pairRows(const Panel &from, mlir::Value rows, const Panel &to);
  /// Transposes the natural panel of queries `from` and writes the result to
  /// `to`. With f32 it also multiplies the queries by `factor`. With bf16
  /// `scoreOf` multiplies the scores instead, because scaled queries would have
  /// to be rounded to bf16 again.
  void transposeQueries(const Panel &from, double factor, const Panel &to);
  void fill(const Panel &to, int64_t rows, double value);

  /// The rows of the result that a product computes. If `fixed` >= 0, these are
  /// the rows [0, fixed). Otherwise they are [begin, end), where `begin` and
  /// `end` are multiples of `AttentionBlocking::keyUnit`.
  struct RowRange {
    mlir::Value begin, end;
    int64_t fixed = -1;
  };
  /// One tile of a product: its first row and column, its number of rows, and
  /// its width in vectors.
  struct Tile {
    mlir::Value row, column;
    int64_t rows, vectors;
  };
  void forTiles(const RowRange &range, llvm::ArrayRef<ColumnGroup> groups,
                llvm::function_ref<void(const Tile &)> body);
  /// init + left * right for one tile; `left` begins at the tile's first row,
  /// `right` at its first column. The product sums over `depth` words. A word
  /// has 32 bits: one f32, or two bf16 that are adjacent along the summed
  /// dimension. An iteration of the emitted loop multiplies `unroll` words;
  /// `depth` is a multiple of `unroll`.
  Values multiply(const Tile &tile, const Panel &left, const Panel &right,
                  mlir::Value depth, int64_t unroll, mlir::ValueRange init);
  /// to += product, for the rows `range` and all features of a head. `product`
  /// adds the product of a tile to the sums that it gets.
  void accumulate(const RowRange &range, const Panel &to,
                  llvm::function_ref<Values(const Tile &, Values)> product);
  /// The length, in 32-bit words, of the dot product of a query and a key: the
  /// features of a head, padded to a multiple of four words.
  mlir::Value headDepth();
  /// The number of rows of a paired panel that holds `count` rows of elements:
  /// with bf16 two rows of elements become one row of pairs.
  mlir::Value pairsOf(mlir::Value count);

  /// Keys that a block of queries sees, and for which scores are computed at a
  /// time. Row r of the panel of scores has a key of the range, for r in [0,
  /// end). Without a layout the keys are adjacent, from `first` on: all of the
  /// queries see the keys of the rows [lead, full). Only some of the queries
  /// see those of [0, lead) and [full, end), so these scores need a mask. A
  /// null `lead` means 0, because without a sliding window no key is too old.
  /// With a layout the keys are those of the blocks of a list, from the address
  /// `blocks` on.
  struct KeyRange {
    mlir::Value first, lead, full, end;
    mlir::Value blocks = {};
  };
  /// The rows [begin, end) of the panel of scores, whose keys are adjacent: row
  /// r has key `offset` + r.
  struct KeyRun {
    mlir::Value offset, begin, end;
  };
  /// Calls `body` for each range of keys that some query of a block sees. The
  /// block of queries begins with `firstQuery`. `head` is among the rank's
  /// heads. With a layout, first calls `pack` with the first key of each block
  /// of keys that is seen for the first time since `forgetKeys`.
  void forKeyRanges(mlir::Value head, mlir::Value firstQuery,
                    llvm::function_ref<void(mlir::Value)> pack,
                    llvm::function_ref<void(const KeyRange &)> body);
  /// Calls `body` for the runs of adjacent keys in a range.
  void forRuns(const KeyRange &range,
               llvm::function_ref<void(const KeyRun &)> body);
  /// As above. `body` returns values, which the next call gets; the first call
  /// gets `init`. Returns the values after the last run.
  Values
  forRuns(const KeyRange &range, mlir::ValueRange init,
          llvm::function_ref<Values(const KeyRun &, mlir::ValueRange)> body);
  /// Calls `body` for the tiles of scores of a range of keys. The first row of
  /// a tile has key `key`. `masked` is false if all queries of the tile see all
  /// of its keys.
  void forScoreTiles(
      const KeyRange &range,
      llvm::function_ref<void(const Tile &, mlir::Value key, bool masked)>
          body);
  /// Returns a mask for the vector of queries that begins with `query`. A lane
  /// is true if its query sees `key`.
  mlir::Value seen(mlir::Value query, mlir::Value key);

  /// 2^t for t <= 0 or slightly above; zero if 2^t < 2^-125.
  mlir::Value exp2(mlir::Value t);
  mlir::Value greater(mlir::Value x, mlir::Value y);

  /// Computes the score, in units of log 2, from the dot product of a query and
  /// a key. With f32 the queries have already been multiplied by the scale.
  /// With bf16 this function multiplies by the scale, because scaled queries
  /// would be rounded.
  mlir::Value scoreOf(mlir::Value product);
  /// The derivative of the soft cap, computed from the capped score.
  mlir::Value slopeOf(mlir::Value score);

  /// Initializes `visible`, `lengths` and the layout.
  void prepareKeys(const AttentionKeys &keys, const LayoutScratch &scratch);
  /// With a layout: says that no block of keys is in a panel yet.
  void forgetKeys();
  /// With a layout: calls `body` with the first key of each block that no query
  /// has seen since `forgetKeys`.
  void forUnseenBlocks(llvm::function_ref<void(mlir::Value)> body);
  /// Makes `visible` describe the keys of row `batch` of the batch.
  void beginRow(mlir::Value batch) { visible->beginRow(lengthOf(batch)); }
  /// Splits the work between threads. Each row of the batch has `itemsOfRow`
  /// units of work, such as heads. Returns the begin and the end of the units
  /// that thread `thread` computes. Threads get about equal work even if rows
  /// differ in length or, with a layout, blocks of queries in their keys.
  std::pair<mlir::Value, mlir::Value>
  share(mlir::Value thread, mlir::Value threads, int64_t itemsOfRow);
  /// The number of keys that exist in the current row of the batch (see
  /// `beginRow`), rounded up to a multiple of `AttentionBlocking::keyUnit`.
  mlir::Value paddedKeys();
  /// With a layout: the number of keys that exist in the block from `key` on.
  mlir::Value rowsOfBlock(mlir::Value key);
  void prepareRandom(const AttentionRandom &random);
  /// The index of a head's first probability (see codegen::firstProbability).
  mlir::Value firstProbability(mlir::Value batch, mlir::Value head);
  /// Returns four masks, for the keys `key` (a multiple of four) to `key` + 3.
  /// The lanes of a mask are the queries from `query` on. A lane is true if
  /// dropout keeps the probability of its query for the key.
  Values keep(mlir::Value firstProbability, mlir::Value query, mlir::Value key);

  codegen::IntBuilder integers() {
    return {b.builder, b.loc, b.builder.getI64Type()};
  }
  mlir::Value minimum(mlir::Value a, int64_t bound);
  mlir::Value maximum(mlir::Value a, mlir::Value bound);

  LoopBuilder &b;
  const AttentionSpec &spec;
  const AttentionBlocking &blocking;
  mlir::Value scratch;
  mlir::FloatType f32;
  mlir::VectorType vectorType; ///< A vector of f32.
  /// The keys that queries see in the row of the last call of `beginRow`.
  std::optional<codegen::VisibleKeys> visible;

private:
  mlir::Value naturalAt(const Panel &panel, int64_t row, int64_t vector);
  mlir::Value multiplyAdd(mlir::Value left, mlir::Value right, mlir::Value sum);

  struct PhiloxState {
    mlir::Value counter[4]; ///< Vectors of i64; only the low halves are used.
  };
  PhiloxState philox(mlir::Value block);
  mlir::Value indexVector(mlir::Value first, int64_t parity);
  /// The cost of computing a row of the batch. The unit is the cost of one pair
  /// of a query and a key.
  mlir::Value costOfRow(mlir::Value batch);
  /// The number of tokens of a row of the batch; null if no row has padding.
  mlir::Value lengthOf(mlir::Value batch);

  mlir::VectorType wideType; ///< A vector of i64 with half as many lanes.
  mlir::Value roundKeys[10][2], step, stream, microBatch, part;
  mlir::Value lengths; ///< The rows' lengths; null if all rows are full.

  /// The address of the words that say which blocks of keys a block of queries
  /// sees, which begins with `firstQuery`.
  mlir::Value layoutRow(mlir::Value head, mlir::Value firstQuery);
  /// Writes the first keys of the blocks that a block of queries sees to
  /// `list`, and returns their number. Calls `pack` as `forKeyRanges` does.
  mlir::Value listBlocks(mlir::Value head, mlir::Value firstQuery,
                         llvm::function_ref<void(mlir::Value)> pack);
  /// Writes the number of blocks of keys that each block of queries sees to
  /// `counts`: for each of the rank's heads, or once if all have one layout.
  void countBlocks();
  std::pair<mlir::Value, mlir::Value>
  shareByLayout(mlir::Value thread, mlir::Value threads, int64_t itemsOfRow);
  /// The cost of a unit of work of a row of the batch, which has `itemsOfRow`
  /// units.
  mlir::Value costOfItem(mlir::Value batch, mlir::Value item,
                         int64_t itemsOfRow);
  /// The operand, and the scratch memory that LayoutScratch describes.
  mlir::Value layout, list, packed, counts;
  mlir::Value layoutPart; ///< Which part of the heads a rank has; may be null.
};

/// Whether code can be emitted for attention with `spec` and these operands.
/// `operands` is 1 for one packed tensor of q, k and v, and 3 for separate
/// tensors.
bool isValidAttention(const AttentionSpec &spec, size_t operands,
                      const AttentionRandom &random, const AttentionKeys &keys);

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_ATTENTIONEMITTER_H
