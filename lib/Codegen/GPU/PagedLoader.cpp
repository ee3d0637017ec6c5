//===- PagedLoader.cpp - Copies pages to shared memory --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A copy consists of accesses of at most 16 bytes. If tiles have the type of
// the cache, the accesses are asynchronous. Otherwise the elements are
// converted in registers.
//
//===----------------------------------------------------------------------===//

#include "PagedLoader.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

/// The bytes of shared memory that one cycle accesses.
static constexpr int64_t bankBytes = 128;

Value PartKeys::areSeen(codegen::IntBuilder i32,
                        const codegen::CachedKeys &seen, Value first,
                        int64_t keys) const {
  Value isAfterBegin = keys == 1 ? i32.atLeast(first, begin)
                                 : i32.less(begin, i32.add(first, keys));
  Value areSeen = i32.both(i32.less(first, end), isAfterBegin);
  if (!bits)
    return areSeen;
  return i32.both(areSeen, i32.less(i32.constant(0),
                                    seen.bitsOfKeys(i32, bits, first, keys)));
}

int64_t PagedLoader::accessWidth(int64_t row, Type type) {
  int64_t width = accessBytes / dist::byteSize(type);
  while (row % width)
    width /= 2;
  return width;
}

void PagedLoader::forAccesses(int64_t count, function_ref<void(Value)> body,
                              int64_t mostUnrolled) {
  auto guarded = [&](Value access, bool isWhole) {
    if (isWhole)
      return body(access);
    InsideIf isIn(c, c.less(access, count));
    body(access);
  };
  if (count <= mostUnrolled * threads()) {
    for (int64_t base = 0; base < count; base += threads())
      guarded(c.add(thread, base), base + threads() <= count);
    return;
  }
  c.builder.create<scf::ForOp>(
      c.loc, c.constant(0), c.constant(count), c.constant(threads()),
      ValueRange(), [&](OpBuilder &b, Location loc, Value base, ValueRange) {
        guarded(c.add(thread, base), count % threads() == 0);
        b.create<scf::YieldOp>(loc);
      });
}

Value PagedLoader::pageAt(Value number) {
  Type i32 = c.builder.getI32Type();
  return c.load(i32, c.at(pageNumbers, c.mul(number, sizeof(int32_t))));
}

void PagedLoader::loadPageNumbers(const PartKeys &part) {
  columns.clear();
  forAccesses(numPageNumbers(shape, a), [&](Value number) {
    Value first = c.mul(number, a.pageTokens);
    Value isRead = part.areSeen(a.i32, seen, first, a.pageTokens);
    // Entries of pages that no query sees may have any value.
    auto load = c.builder.create<scf::IfOp>(
        c.loc, isRead,
        [&](OpBuilder &b, Location loc) {
          Value page = a.pageOf(part.row, c.add(part.firstPage, number));
          b.create<scf::YieldOp>(loc, page);
        },
        [&](OpBuilder &b, Location loc) {
          b.create<scf::YieldOp>(loc, c.constant(0));
        });
    c.store(load.getResult(0),
            c.at(pageNumbers, c.mul(number, sizeof(int32_t))));
  });
}

void PagedLoader::loadScales(const PartKeys &part, Value keyScales,
                             Value valueScales) {
  Type f32 = c.builder.getF32Type();
  forAccesses(shape.keys(), [&](Value key) {
    Value offset = c.mul(key, sizeof(float));
    Value isRead = part.areSeen(a.i32, seen, key, 1);
    auto load = c.builder.create<scf::IfOp>(
        c.loc, isRead,
        [&](OpBuilder &b, Location loc) {
          auto [number, inPage] = split(key);
          Value scales = a.scalesAt(pageAt(number), part.kvHead);
          Value ofKey =
              c.load(a.scaleType, a.advance(scales, a.scaleType, inPage));
          Value ofValue =
              c.load(a.scaleType, a.advance(scales, a.scaleType,
                                            c.add(inPage, a.pageTokens)));
          b.create<scf::YieldOp>(loc,
                                 ValueRange{c.widen(ofKey), c.widen(ofValue)});
        },
        [&](OpBuilder &b, Location loc) {
          Value none = c.zero(f32);
          b.create<scf::YieldOp>(loc, ValueRange{none, none});
        });
    c.store(load.getResult(0), c.at(keyScales, offset));
    c.store(load.getResult(1), c.at(valueScales, offset));
  });
}

/// Converts elements to the type `stored` of a tile. int8 codes are exact in
/// every such type.
Value PagedLoader::converted(Value loaded, Type stored) {
  auto type = cast<VectorType>(loaded.getType());
  if (type.getElementType() == stored)
    return loaded;
  Value wide = type.getElementType().isInteger(8)
                   ? c.create<arith::SIToFPOp>(
                         type.clone(c.builder.getF32Type()), loaded)
                   : c.widen(loaded);
  return c.narrow(wide, stored);
}

/// Copies `width` elements: from element `index` of `from` to `to`.
void PagedLoader::copyAccess(Value from, Value index, Value to, int64_t width,
                             Value isPresent) {
  constexpr int64_t leastAsync = 4;
  int64_t bytes = width * dist::byteSize(a.cacheType);
  if (a.cacheType == shape.stored && bytes >= leastAsync) {
    Value present =
        c.create<arith::SelectOp>(isPresent, c.constant(bytes), c.constant(0));
    // If no byte is present, the copy does not access the source address, which
    // may then be outside of the cache.
    c.copyAsync(to, a.advance(from, a.cacheType, index), bytes, present);
    return;
  }
  copyConverted(a.advance(from, a.cacheType, index), a.cacheType, to,
                shape.stored, width, isPresent);
}

/// Copies `width` elements of type `type` through registers. They become
/// elements of type `stored`.
void PagedLoader::copyConverted(Value from, Type type, Value to, Type stored,
                                int64_t width, Value isPresent) {
  auto load = c.builder.create<scf::IfOp>(
      c.loc, isPresent,
      [&](OpBuilder &b, Location loc) {
        b.create<scf::YieldOp>(
            loc, converted(c.loadVector(type, width, from), stored));
      },
      [&](OpBuilder &b, Location loc) {
        b.create<scf::YieldOp>(loc, c.zero(VectorType::get({width}, stored)));
      });
  int64_t bytes = dist::byteSize(stored);
  int64_t most = std::min(width, accessBytes / bytes);
  for (int64_t first = 0; first < width; first += most) {
    Value some = c.builder.create<vector::ExtractStridedSliceOp>(
        c.loc, load.getResult(0), first, most, 1);
    c.store(some, c.at(to, first * bytes));
  }
}

/// Emits the norms of the queries: each warp computes those of some queries.
LogicalResult PagedLoader::reduceQueries(Value row, Value kvHead) {
  int64_t group = a.heads / a.kv, count = a.normsOf(0).count();
  if (count == 0)
    return success();
  bool isKnown = true;
  c.builder.create<scf::ForOp>(
      c.loc, c.div(thread, warpSize), c.constant(a.tokens * group),
      c.constant(shape.warps), ValueRange(),
      [&](OpBuilder &b, Location loc, Value query, ValueRange) {
        Value head = c.add(c.mul(kvHead, group), c.rem(query, group));
        FailureOr<SmallVector<Value>> norms =
            a.reduceHead(0, row, c.div(query, group), head);
        isKnown &= succeeded(norms);
        if (isKnown) {
          InsideIf isFirst(c, c.less(c.rem(thread, warpSize), 1));
          for (auto [i, norm] : llvm::enumerate(*norms))
            c.store(norm, normAt(c.add(c.mul(query, count), int64_t(i))));
        }
        b.create<scf::YieldOp>(loc);
      });
  c.barrier();
  return success(isKnown);
}

/// Computes the queries by the operations of the kernel. A thread has the same
/// feature of all queries, so that these share what depends on the feature,
/// such as the frequency of a rotary embedding.
LogicalResult PagedLoader::computeQueries(Value row, Value kvHead, Value tile) {
  if (failed(reduceQueries(row, kvHead)))
    return failure();
  int64_t group = a.heads / a.kv, numNorms = a.normsOf(0).count();
  bool isKnown = true;
  auto compute = [&](Value feature) {
    Value column = feature, isFeature;
    if (shape.scoreFeatures() > a.dims) {
      isFeature = c.less(feature, a.dims);
      column = a.i32.min(feature, a.dims - 1);
    }
    for (int64_t query = 0; query < shape.queries; ++query) {
      Value value = c.zero(shape.element);
      if (query < a.tokens * group) {
        Value head = c.add(c.mul(kvHead, group), query % group);
        SmallVector<Value> norms;
        for (int64_t i = 0; i < numNorms; ++i)
          norms.push_back(c.load(c.builder.getF32Type(),
                                 normAt(c.constant(query * numNorms + i))));
        a.normsOf(0).bind(norms);
        Value computed =
            a.featureOf(0, row, c.constant(query / group), head, column);
        isKnown &= bool(computed);
        if (computed)
          value = c.orZero(isFeature, c.narrow(computed, shape.element));
      }
      c.store(value, c.at(tile, c.add(c.mul(feature, shape.bytes()),
                                      query * shape.queryBytes())));
    }
  };
  forAccesses(shape.scoreFeatures(), compute, /*mostUnrolled=*/1);
  return success(isKnown);
}

LogicalResult PagedLoader::loadQueries(Value row, Value kvHead, Value first,
                                       Value tile) {
  if (a.isComputed(0)) // One block has all queries of the head.
    return computeQueries(row, kvHead, tile);
  int64_t width = accessWidth(a.dims, a.type), group = a.heads / a.kv;
  int64_t perRow = shape.scoreFeatures() / width;
  forAccesses(shape.queries * perRow, [&](Value access) {
    Value inTile = c.div(access, perRow), query = c.add(first, inTile);
    Value feature = c.mul(c.rem(access, perRow), width);
    Value exists =
        c.both(c.less(query, a.tokens * group), c.less(feature, a.dims));
    Value head = c.add(c.mul(kvHead, group), c.rem(query, group));
    Value from =
        a.advance(a.headAt(0, row, c.div(query, group), head), a.type, feature);
    Value to = c.at(tile, c.add(c.mul(inTile, shape.queryBytes()),
                                c.mul(feature, shape.bytes())));
    copyConverted(from, a.type, to, shape.element, width, exists);
  });
  return success();
}

PagedLoader::KeyColumn PagedLoader::keyColumn(const PartKeys &part,
                                              Value column, int64_t width) {
  auto [number, inPage] = split(column);
  Value isPresent = part.areSeen(a.i32, seen, column, width);
  Value head = a.headInPage(pageAt(number), part.kvHead);
  return {column, isPresent, c.create<arith::AddIOp>(head, c.wide(inPage))};
}

/// Starts the copy of feature `first` + `d` of keys to row `d` of `tile`, which
/// has `count` rows.
void PagedLoader::copyFeature(const KeyColumn &keys, Value tile, int64_t first,
                              Value d, int64_t count, int64_t width) {
  Value isPresent = keys.isPresent;
  if (first + count > a.dims)
    isPresent = c.both(isPresent, c.less(d, a.dims - first));
  Value inHead = c.wide(c.mul(c.add(d, first), a.pageTokens));
  Value index = c.create<arith::AddIOp>(keys.inPages, inHead);
  Value to = c.at(tile, c.add(c.mul(d, shape.keyBytes()),
                              c.mul(keys.column, shape.storedBytes())));
  copyAccess(a.keys, index, to, width, isPresent);
}

void PagedLoader::copyKeys(const PartKeys &part, Value tile, int64_t first,
                           int64_t count) {
  int64_t width = accessWidth(a.pageTokens, a.cacheType);
  int64_t perRow = shape.keys() / width;
  // Lanes that store to shared memory in the same cycle have keys of several
  // pages and the same feature, which avoids bank conflicts.
  int64_t inner = std::min(perRow, bankBytes / (width * shape.storedBytes()));
  if (threads() % inner || perRow % inner || inner * count % threads()) {
    forAccesses(count * perRow, [&](Value access) {
      Value d = c.rem(c.div(access, inner), count);
      Value column = c.add(c.mul(c.div(access, inner * count), inner),
                           c.rem(access, inner));
      copyFeature(keyColumn(part, c.mul(column, width), width), tile, first, d,
                  count, width);
    });
    return;
  }
  // A thread has the same columns in all tiles of a part.
  for (int64_t i = 0; i < perRow / inner; ++i) {
    if (i == int64_t(columns.size())) {
      Value column = c.mul(c.add(c.rem(thread, inner), i * inner), width);
      columns.push_back(keyColumn(part, column, width));
    }
    for (int64_t d = 0; d < count; d += threads() / inner)
      copyFeature(columns[i], tile, first, c.add(c.div(thread, inner), d),
                  count, width);
  }
}

void PagedLoader::copyValues(const PartKeys &part, Value tile, int64_t first,
                             int64_t count) {
  int64_t width = accessWidth(a.dims, a.cacheType);
  int64_t perRow = shape.sumFeatures() / width;
  // Lanes that store to shared memory in the same cycle fill whole rows. If
  // they fill several, these are `perRow` rows apart, which avoids bank
  // conflicts: the length of a row is an odd number of accesses.
  int64_t inner = bankBytes / (width * shape.storedBytes());
  bool isSpread = perRow < inner && inner % perRow == 0 && count % inner == 0;
  forAccesses(count * perRow, [&](Value access) {
    Value row = c.div(access, perRow);
    if (isSpread) {
      Value inGroup = c.rem(row, inner);
      Value apart = c.mul(c.rem(inGroup, inner / perRow), perRow);
      row = c.add(c.sub(row, inGroup),
                  c.add(apart, c.div(inGroup, inner / perRow)));
    }
    Value key = c.add(tiles.keyOfRow(row), first);
    Value feature = c.mul(c.rem(access, perRow), width);
    auto [number, inPage] = split(key);
    Value isPresent = part.areSeen(a.i32, seen, key, 1);
    if (shape.sumFeatures() > a.dims)
      isPresent = c.both(isPresent, c.less(feature, a.dims));
    Value index = a.headInPage(pageAt(number), part.kvHead);
    Value inHead = c.add(c.mul(inPage, a.dims), feature);
    index = c.create<arith::AddIOp>(index, c.wide(inHead));
    Value to = c.at(tile, c.add(c.mul(row, shape.valueBytes()),
                                c.mul(feature, shape.storedBytes())));
    copyAccess(a.values, index, to, width, isPresent);
  });
}

} // namespace heddle::gpu
