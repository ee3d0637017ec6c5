//===- Attention.h - What attention is, for every target --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_ATTENTION_H
#define HEDDLE_CODEGEN_COMMON_ATTENTION_H

#include "dialects/NN/NNDialect.h"
#include "heddle/Codegen/Common/IntBuilder.h"

namespace heddle::codegen {

/// One attention, with the meaning of nn.attention. All sizes are static.
struct AttentionSpec {
  int64_t batch = 0, seq = 0;
  int64_t heads = 0;   ///< Of the queries; a multiple of `kvHeads`.
  int64_t kvHeads = 0; ///< Of keys and values.
  int64_t headDim = 0;
  double scale = 1.0;
  double softcap = 0.0; ///< 0: scores have none.
  bool causal = false;
  int64_t window = 0; ///< So many keys up to its own does a query see; 0: all,
                      ///< as where it is no shorter than the sequence.
  double p = 0.0;     ///< Probabilities are dropped with this probability.
  int64_t parts = 1;  ///< These are the heads of one of so many parts.
  int64_t sequenceShards =
      1;            ///< These are the queries of one of so many parts.
  int32_t site = 0; ///< The stream of random numbers.
  /// f32 or bf16: of q, k, v, the output and all their gradients.
  mlir::Type elementType;
  /// One tensor [batch, seq, (heads + 2 kvHeads) * headDim] holds q, k and v;
  /// otherwise there are three of [batch, seq, heads * headDim].
  bool packed = false;

  AttentionSpec() = default;
  /// Of an attention or its gradient.
  explicit AttentionSpec(nn::AttentionOpInterface op);

  int64_t wholeSeq() const { return seq * sequenceShards; }
  /// From dot products to scores in units of log 2; with a soft cap, to what
  /// tanh is of.
  double scoreFactor() const;
  /// With a soft cap: from tanh to scores in units of log 2.
  double capFactor() const;
  /// Where the heads of q, k and v begin in a row of their operand, and how
  /// long that is.
  struct HeadColumns {
    int64_t offset, row;
  };
  std::array<HeadColumns, 3> headColumns() const;
};

/// Which of the keys that are here queries see. Queries and keys are numbers in
/// the part of the sequence that is here, of the integer type of `ints`.
class VisibleKeys {
public:
  /// `place` and `turn` of nn.attention are null where the sequence is whole.
  VisibleKeys(const AttentionSpec &spec, IntBuilder ints, mlir::Value shard,
              mlir::Value ringStep);

  /// Begins with a row of the batch, of this length in the whole sequence; null
  /// where all rows are whole.
  void beginRow(mlir::Value length);
  /// How many of the keys exist in the row.
  mlir::Value count() const { return keyCount; }
  /// The same of a row of this length.
  mlir::Value countOf(mlir::Value length);
  /// How far a query is behind the first key.
  mlir::Value ahead(mlir::Value query);
  /// A query sees the keys before this one; `query` is one of the sequence.
  mlir::Value endOf(mlir::Value query);
  /// None of `queries` queries from `first` on sees this key or one behind it;
  /// the last of them may be beyond the sequence.
  mlir::Value endOfSome(mlir::Value first, int64_t queries);
  /// A key is seen by the queries from this one on; the largest integer, if it
  /// does not exist.
  mlir::Value firstSeeing(mlir::Value key);
  /// With a window: a query sees no keys before this one. It may be behind the
  /// last of those that are here.
  mlir::Value beginOf(mlir::Value query);
  /// With a window: a key is seen by no query from this one on. It may be
  /// behind the last query.
  mlir::Value endSeeing(mlir::Value key);
  /// Whether a query may see none of the keys.
  bool maySeeNoKey() const { return queriesFrom || hasLengths; }
  /// Where queries and keys begin in the whole sequence; null for 0.
  mlir::Value firstQuery() const { return queriesFrom; }
  mlir::Value firstKey() const { return keysFrom; }

private:
  const AttentionSpec &spec;
  IntBuilder ints;
  mlir::Value queriesFrom, keysFrom, keyCount;
  bool hasLengths = false;
};

/// The index of the first probability of a head in the tensor of those of the
/// global batch, [micro-batch, batch, parts, heads, T, T] for whole sequences;
/// of the queries and keys that are here. `part` may be null; `ints` are i64.
mlir::Value firstProbability(const AttentionSpec &spec,
                             const VisibleKeys &visible, IntBuilder ints,
                             mlir::Value microBatch, mlir::Value part,
                             mlir::Value batch, mlir::Value head);

/// 2^t for t <= 0 or slightly above, zero below 2^-125; of f32 or vectors.
mlir::Value exp2(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value t);

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_ATTENTION_H
