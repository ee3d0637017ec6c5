//===- PagedEmitter.h - Common code of paged attention ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The common part of the two implementations of nn.paged_attention: with
// vectors (PagedAttention.cpp) and with AMX tiles (PagedTiles.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_PAGEDEMITTER_H
#define HEDDLE_LIB_CODEGEN_CPU_PAGEDEMITTER_H

#include "CacheEmitter.h"
#include "PartialAttention.h"
#include "heddle/Codegen/Common/Attention.h"

namespace heddle::cpu {

/// Emits the loops over queries and pages of nn.paged_attention. The keys of a
/// row are cut into parts of a fixed number of positions. Each part gives a
/// partial result, and partial results are combined in order
/// (PartialAttention.h), in this kernel or by nn.paged_attention_join. So the
/// bits of a query's result do not depend on the number of threads or on other
/// queries.
class PagedEmitter : public CacheEmitter {
public:
  /// `blockSize` queries are computed together, so that they share the loads of
  /// a page.
  PagedEmitter(KernelEmitter &k, nn::PagedAttentionOp op, int64_t blockSize);
  /// The number of queries of a row that read the same head of keys: tokens
  /// times (query heads / key heads).
  static int64_t queriesOf(nn::PagedAttentionOp op);
  virtual ~PagedEmitter() = default;

  void emit(Value output);

protected:
  /// A query: one token and one query head.
  struct Query {
    Value token, head;
    Value exists;  ///< False for indices after the last query; null: true.
    Value isThere; ///< Whether the query and its token exist.
    Value count;   ///< End of the keys that the query sees; 0: no such query.
    Value first;   ///< The first key that it sees; only if there is a window.
  };
  /// `blockSize` queries, from `first` on, of those queries of row `row` that
  /// read the key head `kvHead`; and the range of pages that these queries see.
  struct QueryBlock {
    Value row, kvHead, first;
    Value count; ///< The largest `count` of the block's queries.
    Value firstPage, pageCount;
  };
  /// The addresses of the keys, values and scales of a head in a page.
  struct Page {
    Value keys, values, scales;
  };

  /// Emits attention of a block of queries. If `part` is not null, it writes
  /// the partial results over part `part` of the keys; otherwise it writes the
  /// outputs over all keys.
  virtual void emitBlock(Value row, Value kvHead, Value first, Value part,
                         Value output) = 0;

  Query query(Value row, Value kvHead, Value index);
  /// A range of keys as two values: its end, then its beginning. `seesNothing`
  /// returns the empty range; `alsoSees` returns the range `seen` extended by
  /// the keys that `query` sees. With both, the caller finds the keys that at
  /// least one query of a block sees.
  Values seesNothing();
  Values alsoSees(mlir::ValueRange seen, const Query &query);
  QueryBlock blockOf(Value row, Value kvHead, Value first,
                     mlir::ValueRange seen);
  Page pageAt(const QueryBlock &block, Value number);
  Value firstPageOf(const QueryBlock &block, Value part);
  Value endOfPages(const QueryBlock &block, Value part);
  /// The page to prefetch while the thread reads page `page`: the page that the
  /// thread will read `pagesAhead` pages later. `end` is the end of the pages
  /// of the current part of the keys. If the kernel returns partial results and
  /// the page would be at or after `end`, it is taken from the next part that
  /// the same thread computes.
  Value pageAhead(const QueryBlock &block, Value page, Value end);
  /// Applies the soft cap, if there is one, to the scores of a page's keys.
  /// `scores` are dot products times `AttentionSpec::scoreFactor`; the results
  /// are in units of log 2.
  Value capped(Value scores);
  /// Sets scores of keys in page `number` to -infinity unless the key is in the
  /// range `first` to `count` (exclusive) that the query sees.
  Value masked(Value scores, Value number, Value count, Value first);
  /// Reduces the lanes of a vector, one for each key of a page, to a scalar.
  Value fold(Value keys, llvm::function_ref<Value(Value, Value)> combine);
  Value foldSum(Value keys);
  Value foldLargest(Value keys);
  Value hidden();
  Value larger(Value x, Value y) { return parts.larger(x, y); }
  Value splat(Value scalar, mlir::VectorType type) {
    return parts.splat(scalar, type);
  }
  /// The addresses at which two results of a query are stored: its output, and
  /// its partial result over one part of the keys.
  Value outputAt(Value output, const Query &query);
  Value partAt(Value output, const Query &query, Value part);
  /// Writes the output of a query, if the query exists. `joined` emits code
  /// that combines the partial results of all parts of the keys. The output is
  /// computed from this combined result.
  void storeOutput(Value output, const Query &query,
                   llvm::function_ref<Values()> joined);

  /// How many pages before its use a page is prefetched.
  static constexpr int64_t pagesAhead = 2;

  PartialAttention parts;
  int64_t group;               ///< Query heads that share a head of keys.
  int64_t partPages, numParts; ///< Pages of a part, parts of a row.
  bool inParts;      ///< The operation returns partial results, not outputs.
  int64_t blockSize; ///< Queries of a block.
  codegen::AttentionSpec spec; ///< Only scale, soft cap and window are set.
  mlir::VectorType keyVector;
};

/// Whether AMX tiles compute the products. This must not depend on the number
/// of tokens, because vectors and tiles give different bits.
bool isOnTiles(KernelEmitter &k, nn::PagedAttentionOp op);
void emitPagedTiles(KernelEmitter &k, nn::PagedAttentionOp op,
                    mlir::Value output);

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_PAGEDEMITTER_H
