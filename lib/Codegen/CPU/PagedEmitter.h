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
#include "heddle/Codegen/Common/CachedKeys.h"

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

private:
  Value bitsOfPage(Value bits, Value number);
  Value maskedByBlocks(Value scores, Value bits);

protected:
  /// A query: one token and one query head.
  struct Query {
    Value token, head;
    Value exists;  ///< False for indices after the last query; null: true.
    Value isThere; ///< Whether the query and its token exist.
    Value count;   ///< End of the keys that the query sees; 0: no such query.
    Value first;   ///< The first key that it sees; null: 0.
    Value words;   ///< With a layout: the first word of the query's row.
    Value bits;    ///< With a layout: the bits of the row in the current part.
  };
  /// `blockSize` queries, from `first` on, of those queries of row `row` that
  /// read the key head `kvHead`; and the range of pages that these queries see.
  struct QueryBlock {
    Value row, kvHead, first;
    Value count; ///< The largest `count` of the block's queries.
    Value firstPage, pageCount;
  };
  /// The pages of a part that some query of a block sees: those from `begin`
  /// to `end` (exclusive) or, with a layout, the entries of `pageList` with
  /// these indices.
  struct PartPages {
    Value begin, end;
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
  /// With a layout: the bits of part `part` in a query's row, which begins at
  /// `words`; 0 if the query sees no key, because `count` is 0.
  Value bitsOf(Value words, Value count, Value part);
  /// The pages of part `part` that the block's queries see. `bits` has the bits
  /// of the part that some query has; null without a layout.
  PartPages pagesOf(const QueryBlock &block, Value part, Value bits);
  /// The number of the page with index `index` of a part's pages.
  Value numberOf(Value index);
  /// The number of the page to prefetch while the thread reads the page with
  /// index `index`: the page that the thread will read `pagesAhead` pages
  /// later. If the kernel returns partial results and the part has no such
  /// page, it is taken from the next part that the same thread computes, or
  /// with a layout is the part's last one.
  Value pageAhead(const QueryBlock &block, const PartPages &pages, Value index);
  /// Applies the soft cap, if there is one, to the scores of a page's keys.
  /// `scores` are dot products times `AttentionSpec::scoreFactor`; the results
  /// are in units of log 2.
  Value capped(Value scores);
  /// Sets scores of keys in page `number` to -infinity unless the query sees
  /// the key. Of the query, only `count`, `first` and `bits` are read.
  Value masked(Value scores, Value number, const Query &query);
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

  codegen::CachedKeys seenKeys;
  PartialAttention parts;
  int64_t group;               ///< Query heads that share a head of keys.
  int64_t partPages, numParts; ///< Pages of a part, parts of a row.
  bool inParts;      ///< The operation returns partial results, not outputs.
  int64_t blockSize; ///< Queries of a block.
  codegen::AttentionSpec spec; ///< Only scale and soft cap are set.
  Value layout, headShard;     ///< Operands; null if there are none.
  Value pageList; ///< With a layout: room for the numbers of a part's pages.
  mlir::VectorType keyVector;
};

/// Whether AMX tiles compute the products. This must not depend on the number
/// of tokens, because vectors and tiles give different bits.
bool isOnTiles(KernelEmitter &k, nn::PagedAttentionOp op);
void emitPagedTiles(KernelEmitter &k, nn::PagedAttentionOp op,
                    mlir::Value output);

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_PAGEDEMITTER_H
