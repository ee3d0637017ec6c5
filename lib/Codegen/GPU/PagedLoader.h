//===- PagedLoader.h - Copies pages to shared memory ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies the keys and values of a part from the pages of the cache to tiles in
// shared memory.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_PAGEDLOADER_H
#define HEDDLE_LIB_CODEGEN_GPU_PAGEDLOADER_H

#include "CacheAddresses.h"
#include "PagedTiles.h"
#include "heddle/Codegen/Common/CachedKeys.h"

namespace heddle::gpu {

/// The keys of one head that a block reads: those of one row, from `begin` to
/// `end` within a part.
struct PartKeys {
  mlir::Value row, kvHead;
  mlir::Value firstPage;  ///< The first entry of the page table.
  mlir::Value begin, end; ///< Indices in the part.
  /// With a layout: the bits of the part's blocks that some query of the block
  /// sees.
  mlir::Value bits;

  /// Whether some query sees one of `keys` adjacent keys, which begin at index
  /// `first` and are in one block of a layout or are several whole blocks.
  mlir::Value areSeen(codegen::IntBuilder i32, const codegen::CachedKeys &seen,
                      mlir::Value first, int64_t keys) const;
};

/// Emits the copies. Keys and values that no query sees are not read; zeros
/// take their place.
class PagedLoader {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;

  /// `pageNumbers` has room for `numPageNumbers` i32 values, `queryNorms` for
  /// the results of the norms of all queries.
  PagedLoader(CacheAddresses &a, const codegen::CachedKeys &seen,
              const PagedShape &shape, PagedTiles &tiles, Value pageNumbers,
              Value queryNorms)
      : c(a.c), a(a), seen(seen), shape(shape), tiles(tiles),
        pageNumbers(pageNumbers), queryNorms(queryNorms), thread(c.threadId()) {
  }

  /// The number of pages that hold the keys of a tile.
  static int64_t numPageNumbers(const PagedShape &shape,
                                const CacheAddresses &a) {
    return llvm::divideCeil(shape.keys(), a.pageTokens);
  }

  /// Copies the queries `first` to `first` + `shape.queries` of a row that read
  /// the key head `kvHead`. Queries are numbered token by token. Zeros take the
  /// place of queries that do not exist. Fails if the kernel cannot compute a
  /// query.
  mlir::LogicalResult loadQueries(Value row, Value kvHead, Value first,
                                  Value tile);
  /// Copies the part's entries of the page table to `pageNumbers`. Needs a
  /// barrier before the other copies.
  void loadPageNumbers(const PartKeys &part);
  /// Copies the scales of keys to `keyScales`, and those of values to
  /// `valueScales`, as f32.
  void loadScales(const PartKeys &part, Value keyScales, Value valueScales);
  /// Starts the copy of the features `first` to `first` + `count` of all keys
  /// of the part to `tile`.
  void copyKeys(const PartKeys &part, Value tile, int64_t first, int64_t count);
  /// Starts the copy of the values `first` to `first` + `count` to `tile`.
  void copyValues(const PartKeys &part, Value tile, int64_t first,
                  int64_t count);

  /// Emits `body` for the accesses of a thread to `count` elements of a list. A
  /// thread's accesses are unrolled if there are at most `mostUnrolled`.
  /// Otherwise a loop emits them, which keeps the code short.
  void forAccesses(int64_t count, llvm::function_ref<void(Value)> body,
                   int64_t mostUnrolled = 16);

private:
  int64_t threads() const { return shape.warps * warpSize; }
  /// The number of elements of one access to rows of `row` elements.
  static int64_t accessWidth(int64_t row, Type type);
  mlir::LogicalResult reduceQueries(Value row, Value kvHead);
  mlir::LogicalResult computeQueries(Value row, Value kvHead, Value tile);
  /// Adjacent keys, as many as one access copies, of which a thread copies some
  /// features.
  struct KeyColumn {
    Value column;    ///< The first key, within the part.
    Value isPresent; ///< Whether some query sees one of the keys.
    Value inPages;   ///< The index (i64) of its first feature in the cache.
  };
  KeyColumn keyColumn(const PartKeys &part, Value column, int64_t width);
  void copyFeature(const KeyColumn &keys, Value tile, int64_t first, Value d,
                   int64_t count, int64_t width);
  void copyAccess(Value from, Value index, Value to, int64_t width,
                  Value isPresent);
  void copyConverted(Value from, Type type, Value to, Type stored,
                     int64_t width, Value isPresent);
  Value converted(Value loaded, Type stored);
  Value pageAt(Value number);
  Value normAt(Value index) {
    return c.at(queryNorms, c.mul(index, sizeof(float)));
  }
  /// The entry of the page table with the key, within the part, and the key's
  /// index in its page.
  std::pair<Value, Value> split(Value key) {
    return {c.div(key, a.pageTokens), c.rem(key, a.pageTokens)};
  }

  ThreadCode &c;
  CacheAddresses &a;
  const codegen::CachedKeys &seen;
  const PagedShape &shape;
  PagedTiles &tiles;
  Value pageNumbers, queryNorms, thread;
  /// The columns of a thread in the part whose page numbers were loaded last.
  llvm::SmallVector<KeyColumn> columns;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_PAGEDLOADER_H
