//===- AttentionEmitter.h - Parts shared by attention's passes --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_ATTENTIONEMITTER_H
#define HEDDLE_LIB_CODEGEN_CPU_ATTENTIONEMITTER_H

#include "heddle/Codegen/CPU/Attention.h"
#include "heddle/Codegen/CPU/LoopBuilder.h"
#include <array>

namespace heddle::cpu {

/// `count` runs of `vectors` adjacent vectors each, from vector `first` on.
struct ColumnGroup {
  int64_t first, count, vectors;
};

/// How one attention is cut into blocks. Scores are kept transposed: a row is a
/// key, the lanes of its vectors are queries.
///
/// Factors of products are made of words of 32 bits: one f32, or two bf16 that
/// are adjacent in the dimension which the product sums over. "Natural" panels
/// keep the words of a row of a head together; "paired" ones have a row of
/// words for two rows of elements. With f32 they are the same.
struct AttentionBlocking {
  AttentionBlocking(const AttentionSpec &spec, const CpuTarget &target,
                    int64_t maxKeyBlock);

  int64_t lanes;
  int64_t pairs;        ///< Elements in a word.
  int64_t widest;       ///< Vectors in one row of a tile, at most.
  int64_t headVectors;  ///< Vectors in one row of a head, the last one padded.
  int64_t queryVectors; ///< Vectors in one row of scores.
  int64_t queryBlocks;  ///< Blocks in the sequence.
  int64_t keyUnit;      ///< Keys are counted in multiples of this,
  int64_t keys;         ///< up to this many,
  int64_t keyBlock;     ///< this many at a time.
  llvm::SmallVector<ColumnGroup> headGroups, queryGroups;

  int64_t headRow() const { return headVectors * lanes; }
  int64_t queries() const { return queryVectors * lanes; }
  int64_t naturalRow() const {
    return (headRow() / pairs + lanes - 1) / lanes * lanes;
  }
  int64_t scorePanel() const { return keyBlock * queries(); }
};

/// Hands out aligned offsets, in words, of a thread's scratch.
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

/// Emits the parts that the forward pass and the gradient share.
class AttentionEmitter {
protected:
  using Values = LoopBuilder::Values;

  AttentionEmitter(LoopBuilder &b, const AttentionSpec &spec,
                   const AttentionBlocking &blocking, mlir::Value scratch);

  /// The heads of one tensor [batch, seq, row], from some column on.
  struct Heads {
    mlir::Value pointer;
    int64_t row;
  };
  /// q, k and v of the operands or results `tensors`.
  std::array<Heads, 3> splitHeads(mlir::ValueRange tensors);
  /// A tensor [batch, seq, heads * headDim].
  Heads queryHeads(mlir::Value tensor);
  /// Where `row` of `head` begins.
  mlir::Value rowPointer(const Heads &heads, mlir::Value batch,
                         mlir::Value head, mlir::Value row);

  /// A matrix of words in scratch; word (i, j) is at i * row + j * column.
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
  /// Stores f32 lanes as elements of a natural panel.
  void storeNatural(mlir::Value value, const Panel &panel, int64_t row,
                    int64_t vector);
  /// Stores the f32 lanes of two rows as one row of a paired panel of bf16.
  void storePaired(mlir::Value even, mlir::Value odd, mlir::Value pointer);
  mlir::Value loadSplat(mlir::Value pointer);
  mlir::Value splat(mlir::Value scalar, mlir::VectorType type);
  mlir::Value splat(double value);

  /// Copies `rows` rows of a head from `source` on, with `stride` elements
  /// between rows, to the first rows of the natural panel `to`, and makes the
  /// others, up to `total`, zero.
  void packRows(mlir::Value source, int64_t stride, mlir::Value rows,
                mlir::Value total, const Panel &to);
  /// Loads or stores vector `vector` of a row of a head.
  mlir::Value loadHead(mlir::Value row, int64_t vector);
  void storeHead(mlir::Value value, mlir::Value row, int64_t vector);
  /// Makes the paired panel `to` of `rows` rows of the natural panel `from`.
  /// With f32 there is nothing to do.
  void pairRows(const Panel &from, mlir::Value rows, const Panel &to);
  /// `to` = the transposition of `from`, a natural panel of queries, with f32
  /// times `factor`.
  void transposeQueries(const Panel &from, double factor, const Panel &to);
  void fill(const Panel &to, int64_t rows, double value);

  /// Rows [begin, end) of a product; `fixed` >= 0 means rows [0, fixed), else
  /// both bounds are multiples of `AttentionBlocking::keyUnit`.
  struct RowRange {
    mlir::Value begin, end;
    int64_t fixed = -1;
  };
  /// One tile of a product: its first row and column and its size.
  struct Tile {
    mlir::Value row, column;
    int64_t rows, vectors;
  };
  void forTiles(const RowRange &range, llvm::ArrayRef<ColumnGroup> groups,
                llvm::function_ref<void(const Tile &)> body);
  /// init + left * right for one tile; `left` begins at the tile's first row,
  /// `right` at its first column. `depth`, in words, is a multiple of `unroll`.
  Values multiply(const Tile &tile, const Panel &left, const Panel &right,
                  mlir::Value depth, int64_t unroll, mlir::ValueRange init);
  /// to += left * right over all tiles of the heads' columns.
  void accumulate(const RowRange &range, const Panel &left, const Panel &right,
                  mlir::Value depth, int64_t unroll, const Panel &to);
  /// Words of a head that products of queries and keys sum over.
  mlir::Value headDepth();
  /// Words in which `count` rows stand in a paired panel.
  mlir::Value pairsOf(mlir::Value count);

  /// A block of keys from key `first` on: the block's keys in [lead, full) are
  /// seen by all queries of a block, those below `end` by some. `lead` is null
  /// for 0, which it is without a window.
  struct KeyRange {
    mlir::Value first, lead, full, end;
  };
  /// Calls `body` for each block of keys that the queries from `firstQuery` on
  /// see.
  void forKeyBlocks(mlir::Value firstQuery,
                    llvm::function_ref<void(const KeyRange &)> body);
  /// Calls `body` for the tiles of scores of a block of keys, and says whether
  /// some queries of the tile do not see some of its keys.
  void forScoreTiles(const KeyRange &range,
                     llvm::function_ref<void(const Tile &, bool masked)> body);
  /// Lanes of the queries from `query` on that see `key`.
  mlir::Value seen(mlir::Value query, mlir::Value key);

  /// 2^t for t <= 0 or slightly above; zero below 2^-125.
  mlir::Value exp2(mlir::Value t);
  mlir::Value greater(mlir::Value x, mlir::Value y);

  /// A score in units of log 2: with f32 queries are multiplied by the factor,
  /// with bf16 the products themselves.
  mlir::Value scoreOf(mlir::Value product);
  /// The derivative of a score by the one before the soft cap.
  mlir::Value slopeOf(mlir::Value score);

  /// Where queries and keys begin in the whole sequence, and where lengths are.
  void prepareKeys(const AttentionKeys &keys);
  /// Begins with a row of the batch.
  void beginRow(mlir::Value batch) { visible->beginRow(lengthOf(batch)); }
  /// The items of work from the first that is a thread's to the first that is
  /// the next one's, of so many in each row of the batch: about equal work.
  std::pair<mlir::Value, mlir::Value>
  share(mlir::Value thread, mlir::Value threads, int64_t itemsOfRow);
  /// The keys of the row up to a multiple of `AttentionBlocking::keyUnit`.
  mlir::Value paddedKeys();
  void prepareRandom(const AttentionRandom &random);
  /// The index of the first probability of a head in the whole tensor.
  mlir::Value firstProbability(mlir::Value batch, mlir::Value head);
  /// Which of the queries from `query` on keep their probability for the four
  /// keys from `key` on, a multiple of four.
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
  mlir::VectorType vectorType; ///< f32 lanes.
  /// In the row that has begun.
  std::optional<codegen::VisibleKeys> visible;

private:
  mlir::Value naturalAt(const Panel &panel, int64_t row, int64_t vector);
  mlir::Value multiplyAdd(mlir::Value left, mlir::Value right, mlir::Value sum);

  struct PhiloxState {
    mlir::Value counter[4]; ///< Vectors of i64, of which the low halves count.
  };
  PhiloxState philox(mlir::Value block);
  mlir::Value indexVector(mlir::Value first, int64_t parity);
  /// What a row costs, in pairs of queries and keys.
  mlir::Value costOfRow(mlir::Value batch);
  /// Of a row of the batch; null where all are whole.
  mlir::Value lengthOf(mlir::Value batch);

  mlir::VectorType wideType; ///< i64, half as many lanes.
  mlir::Value roundKeys[10][2], step, stream, microBatch, part;
  mlir::Value lengths; ///< Null where all rows are whole.
};

/// Whether `spec`, with this many operands, is one that can be emitted.
bool isValidAttention(const AttentionSpec &spec, size_t operands,
                      const AttentionRandom &random, const AttentionKeys &keys);

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_ATTENTIONEMITTER_H
