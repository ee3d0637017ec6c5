//===- PagedTiles.cpp - Paged attention with AMX tiles --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn.paged_attention with AMX tiles. The keys are cut into parts of a fixed
// number of pages. For each part, the code computes up to 32 queries (the rows
// of two tiles) together:
//
//   S = Q K                              tiles, for each page
//   s = scale log2(e) S                  vectors with a lane for each key
//   s = cap log2(e) tanh(S scale / cap)  instead, with a soft cap
//   m = max s, p = 2^(s - m), l = sum p  over all pages of the part
//   O = P V, where P is p as pairs       tiles, which sum over the pages
//
// A key that a query does not see adds exactly zero to its sums, and tiles sum
// page by page, so a query's result does not depend on other queries.
//
//===----------------------------------------------------------------------===//

#include "AmxTiles.h"
#include "PagedEmitter.h"
#include "PairUnit.h"
#include <limits>
#include <numeric>

using namespace mlir;

namespace heddle::cpu {

using Values = LoopBuilder::Values;

namespace {
/// The number of features of a key that one tile holds: 16 rows, each with a
/// pair of features. Two tiles of values together hold as many features.
constexpr int64_t featuresOfTile = 2 * AmxTiles::rows;

class PagedTiles : public PagedEmitter {
public:
  /// `count` is the number of a token's queries that read the same key head:
  /// the group size of grouped-query attention.
  PagedTiles(KernelEmitter &k, nn::PagedAttentionOp op, int64_t count)
      : PagedEmitter(k, op, sizeOfBlock(count)), tiles(b, k.target.emulatesAmx),
        steps(llvm::divideCeil(dims, featuresOfTile)),
        rowTiles(rowTilesFor(count)), tileRows(blockSize / rowTiles),
        queryRows(k.reserve(steps * rowTiles * AmxTiles::tileBytes)),
        keyTiles(k.reserve(steps * AmxTiles::tileBytes)),
        valueTiles(k.reserve(mostSums * valueBytes())),
        scores(k.reserve(partPages * pageBytes())),
        outputs(k.reserve(blockSize * outputBytes())),
        totals(k.reserve(blockSize * 2 * sizeof(float))),
        joined(k.reserve(blockSize * parts.size() * sizeof(float))),
        bounds(k.reserve(blockSize * 3 * sizeof(int64_t))),
        config(k.reserve(AmxTiles::configBytes)) {}

  void emitAll(Value output);

private:
  /// The number of row tiles for `count` queries. All row tiles have the same
  /// number of rows.
  static int64_t rowTilesFor(int64_t count) {
    return count > AmxTiles::rows ? 2 : 1;
  }
  static int64_t sizeOfBlock(int64_t count) {
    count = std::min(count, rowTilesFor(count) * AmxTiles::rows);
    return llvm::alignTo(count, rowTilesFor(count));
  }
  /// The number of tile registers for sums; the other four have fixed uses.
  static constexpr int64_t mostSums = 4;
  static constexpr int queryTile = 4, keyTile = 5, powerTile = 6, valueTile = 7;

  void emitBlock(Value row, Value kvHead, Value first, Value part,
                 Value output) override;
  QueryBlock boundsOf(Value row, Value kvHead, Value first);
  void copyQuery(const Query &query, Value index);
  Value maskOf(int64_t first);
  void sumPart(const QueryBlock &block, Value part);
  void multiplyKeys(Value number);
  void takePowers(Value index, const PartPages &pages, Value part);
  void multiplyValues(const QueryBlock &block, const PartPages &pages,
                      int64_t firstUnit, int64_t count);
  void packKeys(Value from, Value ahead);
  void packValues(Value from, Value ahead, int64_t unit, int64_t to,
                  Value keys);
  Value ahead(const QueryBlock &block, const PartPages &pages, Value index,
              bool ofKeys);
  Query boundsOfQuery(Value index, Value part);
  void forQueries(const QueryBlock &block,
                  llvm::function_ref<void(Value index, const Query &query)>);
  /// Loads the partial result of a query: the largest score m, the sum l of the
  /// powers 2^(s - m) over all scores s, and the output O before division by l.
  Values partOf(Value index);

  Value at(Value base, int64_t bytes, Value index) {
    return b.advance(base, b.builder.getI8Type(), b.mul(index, bytes));
  }
  Value at(Value base, int64_t bytes) {
    return b.advance(base, b.builder.getI8Type(), bytes);
  }
  Value joinedAt(Value index) {
    return b.advance(joined, f32, b.mul(index, parts.size()));
  }
  /// The address at which one bound of the keys that a query sees is stored:
  /// the end of the keys (`which` is 0) or the first key (1); or the first word
  /// of its row of the layout (2).
  Value boundAt(Value index, int64_t which) {
    return b.advance(bounds, b.builder.getI64Type(),
                     b.add(b.mul(index, 3), which));
  }
  Value totalAt(Value index, int64_t which) {
    return b.advance(totals, f32, b.add(b.mul(index, 2), which));
  }
  int64_t powerRowBytes() const { return pageTokens * 2; }
  int64_t pageBytes() const { return blockSize * AmxTiles::rowBytes; }
  int64_t valueRows() const { return pageTokens / 2; }
  int64_t valueBytes() const { return valueRows() * AmxTiles::rowBytes; }
  /// The bytes of one query's output, over all tiles.
  int64_t outputBytes() const { return steps * 2 * AmxTiles::rowBytes; }

  AmxTiles tiles;
  int64_t steps;              ///< Tiles along the features of a head.
  int64_t rowTiles, tileRows; ///< Tiles of queries, and the rows of each.
  // Addresses in the thread's scratch, for the queries of a block. `scores` is
  // stored page by page. The powers 2^(s - m) of the scores s, as pairs,
  // overwrite the first half of each page's scores.
  Value queryRows, keyTiles, valueTiles, scores, outputs, totals, joined,
      bounds, config;
};
} // namespace

/// Copies a query to scratch, with zeros as padding of its features.
void PagedTiles::copyQuery(const Query &query, Value index) {
  Value from = headOf(0, query.token, query.head);
  auto rowType = VectorType::get(featuresOfTile, type);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t first = step * featuresOfTile;
    Value to = at(queryRows, step * pageBytes());
    b.store(b.load(rowType, b.advance(from, type, first), 2, maskOf(first)),
            at(to, AmxTiles::rowBytes, index), AmxTiles::rowBytes);
  }
}

/// A mask for the features of a tile, from feature `first` on: true for
/// features that the head has. Null if the head has all of them.
Value PagedTiles::maskOf(int64_t first) {
  int64_t left = dims - first;
  return left >= featuresOfTile ? Value()
                                : b.mask(b.constant(left), featuresOfTile);
}

/// Calls `body` for each query of the block.
void PagedTiles::forQueries(
    const QueryBlock &block,
    llvm::function_ref<void(Value index, const Query &query)> body) {
  b.forLoop(b.constant(0), b.constant(blockSize), 1, [&](Value index) {
    body(index, query(block.row, block.kvHead, b.add(block.first, index)));
  });
}

PagedTiles::QueryBlock PagedTiles::boundsOf(Value row, Value kvHead,
                                            Value first) {
  Values seen =
      b.forLoop(b.constant(0), b.constant(blockSize), 1, seesNothing(),
                [&](Value index, ValueRange carried) {
                  Query one = query(row, kvHead, b.add(first, index));
                  Value bounds[] = {one.count, one.first, one.words};
                  for (auto [which, bound] : llvm::enumerate(bounds))
                    if (bound)
                      b.store(bound, boundAt(index, int64_t(which)),
                              sizeof(int64_t));
                  return alsoSees(carried, one);
                });
  return blockOf(row, kvHead, first, seen);
}

/// A query with what `boundsOf` has stored of it, and with its bits of part
/// `part`.
PagedTiles::Query PagedTiles::boundsOfQuery(Value index, Value part) {
  auto load = [&](int64_t which) {
    return b.load(b.builder.getI64Type(), boundAt(index, which),
                  sizeof(int64_t));
  };
  Query query;
  query.count = load(0);
  if (seenKeys.hasFirst())
    query.first = load(1);
  if (layout)
    query.bits = bitsOf(load(2), query.count, part);
  return query;
}

/// The address to prefetch while the keys (`ofKeys`) or values of the page with
/// index `index` are packed. The keys of a row are cut into parts (ranges of
/// pages). The code reads all keys of a part and then all values of the part.
/// So while it packs the last pages of keys, it prefetches the first pages of
/// values. Null for prompts: they have many tokens, most of which find the
/// pages in the CPU's cache.
Value PagedTiles::ahead(const QueryBlock &block, const PartPages &pages,
                        Value index, bool ofKeys) {
  if (tokens > 1)
    return {};
  Value later = b.add(index, pagesAhead);
  Value isOfPart = b.less(later, pages.end), number;
  if (ofKeys) {
    Value ofValues = b.min(b.add(pages.begin, b.sub(later, pages.end)),
                           b.sub(pages.end, b.constant(1)));
    number = numberOf(b.select(isOfPart, later, ofValues));
  } else {
    number = pageAhead(block, pages, index);
  }
  Page next = pageAt(block, number);
  return ofKeys ? b.select(isOfPart, next.keys, next.values)
                : b.select(isOfPart, next.values, next.keys);
}

/// Packs a page's keys into tiles. A row of a page has one feature of all keys.
/// A row of a tile has pairs: two adjacent features of each key. Prefetches the
/// page at `ahead` line by line.
void PagedTiles::packKeys(Value from, Value ahead) {
  SmallVector<int64_t> order;
  for (int64_t key = 0; key < pageTokens; ++key)
    order.append({key, pageTokens + key});
  auto pairType = VectorType::get(2 * pageTokens, cacheType);
  auto pack = [&](Value pair, Value mask) {
    Value rows = b.load(pairType, at(from, AmxTiles::rowBytes, pair), 2, mask);
    b.store(b.shuffle(rows, rows, order),
            at(keyTiles, AmxTiles::rowBytes, pair), AmxTiles::rowBytes);
    if (ahead)
      b.prefetch(at(ahead, AmxTiles::rowBytes, pair));
  };
  int64_t pairs = dims / 2, together = std::gcd<int64_t>(pairs, 8);
  b.forLoop(b.constant(0), b.constant(pairs), together, [&](Value pair) {
    for (int64_t i = 0; i < together; ++i)
      pack(b.add(pair, i), {});
  });
  if (dims % 2 != 0)
    pack(b.constant(pairs), b.mask(b.constant(pageTokens), 2 * pageTokens));
}

/// Packs 32 features of a page's values, from feature 32 * `unit` on, into two
/// tiles. A row of a page has all features of one token's value. A row of a
/// tile has pairs: the same feature of two adjacent tokens. The instructions
/// that form pairs work within 128-bit quarters of a vector, which have eight
/// features. The low four features of each quarter go to the first tile, the
/// high four to the second. If `keys` is not null, only the first `keys` tokens
/// of the page have values, and zeros replace the others. Prefetches the page
/// at `ahead`, if not null.
void PagedTiles::packValues(Value from, Value ahead, int64_t unit, int64_t to,
                            Value keys) {
  int64_t first = unit * featuresOfTile;
  auto rowType = VectorType::get(featuresOfTile, cacheType);
  for (int64_t pair = 0; pair < valueRows(); ++pair) {
    auto row = [&](int64_t key) {
      Value mask = maskOf(first);
      if (keys)
        mask = b.both(mask, b.less(b.constant(key), keys), featuresOfTile);
      return b.load(rowType, b.advance(from, cacheType, key * dims + first), 2,
                    mask);
    };
    Value rows[] = {row(2 * pair), row(2 * pair + 1)};
    for (int64_t half = 0; half < 2; ++half) {
      SmallVector<int64_t> order;
      for (int64_t quarter = 0; quarter < 4; ++quarter)
        for (int64_t i = 0; i < 4; ++i) {
          int64_t feature = 8 * quarter + 4 * half + i;
          order.append({feature, featuresOfTile + feature});
        }
      b.store(b.shuffle(rows[0], rows[1], order),
              at(valueTiles,
                 (to + half) * valueBytes() + pair * AmxTiles::rowBytes),
              AmxTiles::rowBytes);
    }
    if (ahead)
      for (int64_t i = 0; i < 2; ++i)
        b.prefetch(b.advance(ahead, cacheType, (2 * pair + i) * dims + first));
  }
}

/// Computes the products of the queries with a page's keys.
void PagedTiles::multiplyKeys(Value local) {
  for (int64_t r = 0; r < rowTiles; ++r)
    tiles.zero(static_cast<int>(r));
  for (int64_t step = 0; step < steps; ++step) {
    tiles.load(keyTile, at(keyTiles, step * AmxTiles::tileBytes),
               AmxTiles::rowBytes);
    for (int64_t r = 0; r < rowTiles; ++r) {
      int64_t row = step * blockSize + r * tileRows;
      tiles.load(queryTile, at(queryRows, row * AmxTiles::rowBytes),
                 AmxTiles::rowBytes);
      tiles.multiplyAdd(static_cast<int>(r), queryTile, keyTile, pairsOf(type));
    }
  }
  for (int64_t r = 0; r < rowTiles; ++r)
    tiles.store(
        static_cast<int>(r),
        at(at(scores, pageBytes(), local), r * tileRows * AmxTiles::rowBytes),
        AmxTiles::rowBytes);
}

/// Turns a query's dot products with the keys of a part's pages into scores s,
/// and then into powers 2^(s - m), where m is the largest score. Stores m and
/// the sum of the powers.
void PagedTiles::takePowers(Value index, const PartPages &pages, Value part) {
  Value begin = pages.begin, end = pages.end;
  Query query = boundsOfQuery(index, part);
  Value factor = splat(number(spec.scoreFactor()), keyVector);
  auto scoresAt = [&](Value page) {
    Value local = b.sub(page, begin);
    return at(at(scores, pageBytes(), local), AmxTiles::rowBytes, index);
  };
  Value most = b.forLoop(
      begin, end, 1, hidden(), [&](Value page, ValueRange carried) -> Values {
        Value address = scoresAt(page);
        Value score = b.create<arith::MulFOp>(
            b.load(keyVector, address, AmxTiles::rowBytes), factor);
        score = masked(capped(score), numberOf(page), query);
        b.store(score, address, AmxTiles::rowBytes);
        return {larger(carried[0], score)};
      })[0];
  Value largest =
      larger(foldLargest(most), number(std::numeric_limits<float>::lowest()));
  Value spread = splat(largest, keyVector);
  Value total = b.forLoop(
      begin, end, 1, b.zeros(keyVector),
      [&](Value page, ValueRange carried) -> Values {
        Value address = scoresAt(page);
        Value score = b.load(keyVector, address, AmxTiles::rowBytes);
        Value power = codegen::exp2(b.builder, b.loc,
                                    b.create<arith::SubFOp>(score, spread));
        b.store(b.narrow(power, cacheType), address, AmxTiles::rowBytes);
        return {b.create<arith::AddFOp>(carried[0], power)};
      })[0];
  b.store(largest, totalAt(index, 0), sizeof(float));
  b.store(foldSum(total), totalAt(index, 1), sizeof(float));
}

/// Computes the weighted sums of values for 32 * `count` features from feature
/// 32 * `firstUnit` on.
void PagedTiles::multiplyValues(const QueryBlock &block, const PartPages &pages,
                                int64_t firstUnit, int64_t count) {
  int64_t columns = 2 * count;
  auto sumOf = [&](int64_t r, int64_t c) {
    return static_cast<int>(r * columns + c);
  };
  for (int64_t sum = 0; sum < rowTiles * columns; ++sum)
    tiles.zero(static_cast<int>(sum));
  b.forLoop(pages.begin, pages.end, 1, [&](Value index) {
    Value number = numberOf(index), from = pageAt(block, number).values;
    Value next = ahead(block, pages, index, /*ofKeys=*/false);
    Value left = b.sub(block.count, b.mul(number, pageTokens));
    auto pack = [&](Value keys) {
      for (int64_t unit = 0; unit < count; ++unit)
        packValues(from, next, firstUnit + unit, 2 * unit, keys);
    };
    b.ifThen(
        b.less(left, b.constant(pageTokens)), [&] { pack(left); },
        [&] { pack({}); });
    for (int64_t r = 0; r < rowTiles; ++r) {
      Value page = at(scores, pageBytes(), b.sub(index, pages.begin));
      tiles.load(powerTile, at(page, r * tileRows * AmxTiles::rowBytes),
                 AmxTiles::rowBytes);
      for (int64_t c = 0; c < columns; ++c) {
        tiles.load(valueTile, at(valueTiles, c * valueBytes()),
                   AmxTiles::rowBytes);
        tiles.multiplyAdd(sumOf(r, c), powerTile, valueTile,
                          pairsOf(cacheType));
      }
    }
  });
  for (int64_t r = 0; r < rowTiles; ++r)
    for (int64_t c = 0; c < columns; ++c)
      tiles.store(sumOf(r, c),
                  at(outputs, r * tileRows * outputBytes() +
                                  (2 * firstUnit + c) * AmxTiles::rowBytes),
                  outputBytes());
}

/// Computes the partial results of the queries of a block over part `part` of
/// the keys: the largest score m, the sum l of the powers 2^(s - m) over all
/// scores s, and the output O before division by l.
void PagedTiles::sumPart(const QueryBlock &block, Value part) {
  Value zero = b.constant(0), bits; // Those that some query has.
  if (layout)
    bits = b.forLoop(zero, b.constant(blockSize), 1, zero,
                     [&](Value index, ValueRange carried) -> Values {
                       return {b.create<arith::OrIOp>(
                           carried[0], boundsOfQuery(index, part).bits)};
                     })[0];
  PartPages pages = pagesOf(block, part, bits);
  b.forLoop(pages.begin, pages.end, 1, [&](Value index) {
    packKeys(pageAt(block, numberOf(index)).keys,
             ahead(block, pages, index, /*ofKeys=*/true));
    multiplyKeys(b.sub(index, pages.begin));
  });
  b.forLoop(zero, b.constant(blockSize), 1,
            [&](Value index) { takePowers(index, pages, part); });
  int64_t together = mostSums / (2 * rowTiles);
  for (int64_t first = 0; first < steps; first += together)
    multiplyValues(block, pages, first, std::min(together, steps - first));
}

Values PagedTiles::partOf(Value index) {
  Values part;
  for (int64_t which = 0; which < 2; ++which)
    part.push_back(b.load(f32, totalAt(index, which), sizeof(float)));
  Value row = at(outputs, outputBytes(), index);
  for (int64_t v = 0; v < parts.vectors; ++v) {
    auto halfOf = [&](int64_t half) {
      int64_t tile = v / 2 * 2 + half;
      return b.load(parts.headVector, at(row, tile * AmxTiles::rowBytes),
                    AmxTiles::rowBytes);
    };
    // `packValues` distributed features over two tiles in groups of four.
    // Restore their order: take four features from the first tile, four from
    // the second, and so on.
    SmallVector<int64_t> order;
    for (int64_t four = v % 2 * 8; four < v % 2 * 8 + 8; four += 4)
      for (int64_t tile = 0; tile < 2; ++tile)
        for (int64_t i = 0; i < 4; ++i)
          order.push_back(tile * parts.lanes + four + i);
    part.push_back(b.shuffle(halfOf(0), halfOf(1), order));
  }
  return part;
}

void PagedTiles::emitBlock(Value row, Value kvHead, Value first, Value part,
                           Value output) {
  QueryBlock block = boundsOf(row, kvHead, first);
  auto copyQueries = [&] {
    forQueries(block, [&](Value index, const Query &query) {
      copyQuery(query, index);
    });
  };
  if (part) {
    b.ifThen(b.less(firstPageOf(block, part), endOfPages(block, part)), [&] {
      copyQueries();
      sumPart(block, part);
      forQueries(block, [&](Value index, const Query &query) {
        b.ifThen(query.isThere, [&] {
          parts.store(partOf(index), partAt(output, query, part));
        });
      });
    });
    return;
  }
  copyQueries();
  b.forLoop(b.constant(0), b.constant(blockSize), 1,
            [&](Value index) { parts.store(parts.none(), joinedAt(index)); });
  b.forLoop(b.div(block.firstPage, partPages),
            b.ceilDiv(block.pageCount, partPages), 1, [&](Value number) {
              sumPart(block, number);
              b.forLoop(
                  b.constant(0), b.constant(blockSize), 1, [&](Value index) {
                    Value to = joinedAt(index);
                    parts.store(parts.join(parts.load(to), partOf(index)), to);
                  });
            });
  forQueries(block, [&](Value index, const Query &query) {
    storeOutput(output, query, [&] { return parts.load(joinedAt(index)); });
  });
}

void PagedTiles::emitAll(Value output) {
  // Rows of key tiles after the last feature are zero for the whole kernel.
  Value zeros = b.zeros(VectorType::get(featuresOfTile, cacheType));
  for (int64_t row = dims / 2; row < steps * AmxTiles::rows; ++row)
    b.store(zeros, at(keyTiles, row * AmxTiles::rowBytes), AmxTiles::rowBytes);
  AmxTiles::Shape rows = {tileRows, AmxTiles::rowBytes},
                  powers = {tileRows, powerRowBytes()},
                  values = {valueRows(), AmxTiles::rowBytes};
  AmxTiles::Shape shapes[AmxTiles::count] = {rows, rows, rows,   rows,
                                             rows, {},   powers, values};
  tiles.configure(config, shapes);
  emit(output);
  tiles.release();
}

bool isOnTiles(KernelEmitter &k, nn::PagedAttentionOp op) {
  auto elementOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType();
  };
  return multipliesTiles(k.target, elementOf(op.getKeys()),
                         elementOf(op.getQkv()[0])) &&
         static_cast<int64_t>(op.getPageTokens()) == AmxTiles::rows;
}

void emitPagedTiles(KernelEmitter &k, nn::PagedAttentionOp op, Value output) {
  PagedTiles(k, op, PagedEmitter::queriesOf(op)).emitAll(output);
}

} // namespace heddle::cpu
