//===- Attention.h - Attention on every target ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parts of attention that CPU and GPU kernels and the linalg lowering
// share: sizes and factors, which keys a query sees, the indices of dropout's
// random numbers, and 2^t.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_ATTENTION_H
#define HEDDLE_CODEGEN_COMMON_ATTENTION_H

#include "dialects/NN/NNDialect.h"
#include "heddle/Codegen/Common/IntBuilder.h"

namespace heddle::codegen {

/// The sizes and attributes of one nn.attention or nn.attention_grad, as one
/// rank computes it. All sizes are static.
struct AttentionSpec {
  int64_t batch = 0, seq = 0;
  int64_t heads = 0;   ///< Query heads; a multiple of `kvHeads`.
  int64_t kvHeads = 0; ///< Heads of keys and values.
  int64_t headDim = 0;
  double scale = 1.0;
  double softcap = 0.0; ///< Soft cap of the scores; 0: none.
  bool causal = false;
  int64_t window = 0; ///< How many keys a query sees, with its own; 0: all.
  /// The size of the blocks of the layout that says which keys a query sees;
  /// 0: no layout.
  int64_t block = 0;
  int64_t layouts = 0;      ///< The layouts of the model: 1, or one a head.
  int64_t layoutBlocks = 0; ///< Blocks in the whole sequence of a layout.
  double p = 0.0;           ///< The probability of dropout.
  int64_t parts = 1;  ///< Parts into which ranks split the heads.
  /// The number of shards into which ranks split the sequence.
  int64_t sequenceShards = 1;
  int32_t site = 0; ///< The stream of dropout's random numbers.
  /// The type of q, k, v, the output and their gradients: a compute type.
  mlir::Type elementType;
  /// Whether one tensor [batch, seq, (heads + 2 kvHeads) * headDim] holds q, k
  /// and v side by side. Otherwise q, k and v are separate tensors.
  bool packed = false;

  AttentionSpec() = default;
  /// Reads the sizes and attributes of `op`.
  explicit AttentionSpec(nn::AttentionOpInterface op);

  int64_t wholeSeq() const { return seq * sequenceShards; }
  /// Words of 32 bits in a row of a layout: one bit for each block of keys.
  int64_t layoutWords() const { return (layoutBlocks + 31) / 32; }
  /// The factor by which dot products of q and k are multiplied. The result is
  /// the score in units of log 2 or, if there is a soft cap, the argument of
  /// tanh.
  double scoreFactor() const;
  /// If there is a soft cap: the factor by which the result of tanh is
  /// multiplied to get scores in units of log 2.
  double capFactor() const;
  /// Where the heads of q, k or v are in a row of the operand that holds them:
  /// `offset` is the column of the first head, `row` the number of columns of
  /// the row.
  struct HeadColumns {
    int64_t offset, row;
  };
  std::array<HeadColumns, 3> headColumns() const;
};

/// Emits code that computes which keys a query sees. A query or key is given by
/// its index among the queries or keys that this rank holds, in the integer
/// type of `ints`.
class VisibleKeys {
public:
  /// `shard` and `ringStep` are the operands of nn.attention; null if the
  /// sequence is not split.
  VisibleKeys(const AttentionSpec &spec, IntBuilder ints, mlir::Value shard,
              mlir::Value ringStep);

  /// The same keys, computed with another type: a vector for several queries or
  /// keys at once.
  VisibleKeys with(IntBuilder ints) const;

  /// Selects the row of the batch that the other methods describe. `length` is
  /// the number of its tokens, over all shards of the sequence; null if no row
  /// has padding.
  void beginRow(mlir::Value length);
  /// The number of the rank's keys that are not padding, in the row of the
  /// batch that `beginRow` has selected.
  mlir::Value count() const { return keyCount; }
  /// The number of the rank's keys that are not padding, in a row of the batch
  /// that has `length` tokens over all shards of the sequence;
  /// null if no row has padding.
  mlir::Value countOf(mlir::Value length);
  /// The position of `query` in the whole sequence minus that of the first key
  /// that the rank holds.
  mlir::Value ahead(mlir::Value query);
  /// The end (exclusive) of the keys that `query` sees. If `query` is after the
  /// rank's last query, the result has no meaning, but is at most `count()`.
  mlir::Value endOf(mlir::Value query);
  /// The end (exclusive) of the keys that at least one of the queries `first`
  /// to `first` + `queries` - 1 sees. The last of these queries may lie after
  /// the end of the sequence.
  mlir::Value endOfSome(mlir::Value first, int64_t queries);
  /// The first query that sees `key`; the largest integer if the key does not
  /// exist.
  mlir::Value firstSeeing(mlir::Value key);
  /// The first key that `query` sees; null if no key is too old for a query.
  /// The index may be greater than that of the rank's last key; then the query
  /// sees none of the rank's keys.
  mlir::Value beginOf(mlir::Value query);
  /// The end (exclusive) of the queries that see `key`; null if no key is too
  /// old for a query. The end may be greater than the number of queries.
  mlir::Value endSeeing(mlir::Value key);
  /// Whether `query` sees `key`, except for what a layout says.
  mlir::Value sees(mlir::Value query, mlir::Value key);
  /// Of a layout: the number of the row with the blocks of keys that `query`
  /// sees in head `head`, among the rows of all heads. `head` is one of the
  /// rank's heads, `part` the rank's shard of the heads; null: 0.
  mlir::Value layoutRow(mlir::Value head, mlir::Value query, mlir::Value part);
  /// Of a layout: the number of blocks of keys before the rank's first key.
  mlir::Value firstKeyBlock();
  /// Whether a query may see none of the rank's keys. This can happen if rows
  /// have padding, if ring attention splits the sequence, or with a layout.
  bool maySeeNoKey() const { return queriesFrom || hasLengths || spec.block; }
  /// The positions of the rank's first query and first key in the whole
  /// sequence; null for 0.
  mlir::Value firstQuery() const { return queriesFrom; }
  mlir::Value firstKey() const { return keysFrom; }

private:
  VisibleKeys(const AttentionSpec &spec, IntBuilder ints)
      : spec(spec), ints(ints) {}

  const AttentionSpec &spec;
  IntBuilder ints;
  mlir::Value queriesFrom, keysFrom, keyCount;
  bool hasLengths = false;
};

/// Dropout finds the random bits of a probability by the probability's index in
/// a tensor over all ranks: [micro-batch, batch, parts, heads, T, T], where T
/// is the length of the whole sequence. This function returns the index for
/// head `head` and the first query and first key that the rank holds. `part` is
/// the rank's shard of the heads; null: 0. `ints` must compute in i64.
mlir::Value firstProbability(const AttentionSpec &spec,
                             const VisibleKeys &visible, IntBuilder ints,
                             mlir::Value microBatch, mlir::Value part,
                             mlir::Value batch, mlir::Value head);

/// Emits 2^t for t <= 0 or slightly above, in f32 or a vector of f32. Results
/// below 2^-125 are zero.
mlir::Value exp2(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value t);

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_ATTENTION_H
