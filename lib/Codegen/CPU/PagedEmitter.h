//===- PagedEmitter.h - Attention over a cache of pages ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_PAGEDEMITTER_H
#define HEDDLE_LIB_CODEGEN_CPU_PAGEDEMITTER_H

#include "CacheEmitter.h"
#include "PartialAttention.h"
#include "heddle/Codegen/Common/Attention.h"

namespace heddle::cpu {

/// Which queries read which pages, whatever multiplies them. Pages are summed
/// in parts of a fixed number of positions, and parts are joined in order
/// (PartialAttention.h), here or by a kernel of its own: nothing depends on the
/// number of threads or on other queries.
class PagedEmitter : public CacheEmitter {
public:
  /// So many queries read a page together.
  PagedEmitter(KernelEmitter &k, nn::PagedAttentionOp op, int64_t blockSize);
  /// The queries of a row that share keys.
  static int64_t queriesOf(nn::PagedAttentionOp op);
  virtual ~PagedEmitter() = default;

  void emit(Value output);

protected:
  /// A query: a token of a row, and one of the heads that share keys.
  struct Query {
    Value token, head;
    Value exists;  ///< Null: always. The last block may have fewer.
    Value isThere; ///< And so is its token.
    Value count;   ///< It sees no key from this one on; 0 if it is not there.
    Value first;   ///< With a window: nor one before this one.
  };
  /// `blockSize` queries of a row and a head of keys, from `first` on, and the
  /// pages that they see.
  struct QueryBlock {
    Value row, kvHead, first;
    Value count; ///< Of the query that sees most.
    Value firstPage, pageCount;
  };
  /// The keys and values of a head in a page, and their scales.
  struct Page {
    Value keys, values, scales;
  };

  /// Emits what the pages of a part give a block of queries or, where `part` is
  /// null, their outputs.
  virtual void emitBlock(Value row, Value kvHead, Value first, Value part,
                         Value output) = 0;

  Query query(Value row, Value kvHead, Value index);
  /// What the queries of a block see, one added after the other: the count and
  /// the first key.
  Values seesNothing();
  Values alsoSees(mlir::ValueRange seen, const Query &query);
  QueryBlock blockOf(Value row, Value kvHead, Value first,
                     mlir::ValueRange seen);
  Page pageAt(const QueryBlock &block, Value number);
  Value firstPageOf(const QueryBlock &block, Value part);
  Value endOfPages(const QueryBlock &block, Value part);
  /// The page that the thread reads `pagesAhead` pages after another one of a
  /// part that ends before page `end`.
  Value pageAhead(const QueryBlock &block, Value page, Value end);
  /// Products of a query and the keys of a page, times their factor, as scores
  /// in units of log 2: capped, and -infinity where the query, which sees keys
  /// from `first` to `count`, does not see them.
  Value capped(Value scores);
  Value masked(Value scores, Value number, Value count, Value first);
  /// The lanes of a page's keys as one number.
  Value fold(Value keys, llvm::function_ref<Value(Value, Value)> combine);
  Value foldSum(Value keys);
  Value foldLargest(Value keys);
  Value hidden();
  Value larger(Value x, Value y) { return parts.larger(x, y); }
  Value splat(Value scalar, mlir::VectorType type) {
    return parts.splat(scalar, type);
  }
  /// Where the output of a query is, and what a part gives it.
  Value outputAt(Value output, const Query &query);
  Value partAt(Value output, const Query &query, Value part);
  /// Writes the output of a query, if there is one, of what all parts together
  /// give it.
  void storeOutput(Value output, const Query &query,
                   llvm::function_ref<Values()> joined);

  /// Pages whose lines are fetched before they are read.
  static constexpr int64_t pagesAhead = 2;

  PartialAttention parts;
  int64_t group;               ///< Heads that share keys.
  int64_t partPages, numParts; ///< Pages of a part, parts of a row.
  bool inParts;                ///< They are the results.
  int64_t blockSize;           ///< Queries that read a page together.
  codegen::AttentionSpec spec; ///< What becomes of products and of the mask.
  mlir::VectorType keyVector;
};

/// Whether tiles multiply: does not depend on the number of tokens.
bool isOnTiles(KernelEmitter &k, nn::PagedAttentionOp op);
void emitPagedTiles(KernelEmitter &k, nn::PagedAttentionOp op,
                    mlir::Value output);

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_PAGEDEMITTER_H
