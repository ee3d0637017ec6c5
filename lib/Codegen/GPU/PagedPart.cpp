//===- PagedPart.cpp - Attention over one part of the keys ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of PagedMapper that computes attention over one part of the keys.
//
//===----------------------------------------------------------------------===//

#include "AttentionMapper.h"
#include "PagedMapper.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace heddle::gpu {

Value PagedMapper::tileOf(size_t step) {
  if (!isResident()) {
    int64_t largest = 0;
    for (const PagedStep &each : steps)
      largest = std::max(largest, each.bytes);
    return c.at(ring, int64_t(step) % stages * largest);
  }
  int64_t offset = 0;
  for (size_t i = 0; i < step; ++i)
    offset += steps[i].bytes;
  return c.at(ring, offset);
}

void PagedMapper::startStep(const PartKeys &part, size_t step) {
  const PagedStep &now = steps[step];
  if (now.isOfKeys)
    loader->copyKeys(part, tileOf(step), now.first, now.count);
  else
    loader->copyValues(part, tileOf(step), now.first, now.count);
  c.commitCopies();
}

/// Emits `body`, which changes `before`, under a condition that all lanes of a
/// warp share.
PagedMapper::Values PagedMapper::guarded(Value condition, Values before,
                                         function_ref<void(Values &)> body) {
  auto branch = c.builder.create<scf::IfOp>(
      c.loc, condition,
      [&](OpBuilder &b, Location loc) {
        Values after = before;
        body(after);
        b.create<scf::YieldOp>(loc, after);
      },
      [&](OpBuilder &b, Location loc) { b.create<scf::YieldOp>(loc, before); });
  return Values(branch.getResults());
}

/// Whether some query sees a key of the warp's chunk.
Value PagedMapper::isChunkSeen(const PartKeys &part) {
  return part.areSeen(i32, seen, c.mul(warp, chunkKeys), chunkKeys);
}

void PagedMapper::addValues(const PartKeys &part, size_t step, Values &sums) {
  const PagedStep &now = steps[step];
  Value isRead = part.areSeen(i32, seen, c.constant(now.first), now.count);
  if (shape.featuresOfWarp() * shape.warps > shape.sumFeatures())
    isRead = c.both(isRead, c.less(c.mul(warp, shape.featuresOfWarp()),
                                   shape.sumFeatures()));
  sums = guarded(isRead, sums, [&](Values &next) {
    tiles->addValues(next, powers, tileOf(step), now.first, now.count);
  });
}

/// Computes attention over the keys of a part. Returns the thread's sums of
/// features. The other results are in shared memory.
PagedMapper::Values PagedMapper::attend(const PartKeys &part) {
  c.barrier(); // Other warps may still read the results of an earlier part.
  loader->loadPageNumbers(part);
  c.barrier();
  if (a.scales)
    loader->loadScales(part, keyScales, valueScales);
  auto started = static_cast<size_t>(isResident() ? stages : stages - 1);
  for (size_t step = 0; step < started; ++step)
    startStep(part, step);
  Values scores(tiles->scoreValues(), number(0));
  Values sums(tiles->sumValues(), number(0));
  Value isSeen = isChunkSeen(part);
  for (auto [step, now] : llvm::enumerate(steps)) {
    c.waitForCopies(static_cast<int64_t>(started - step - 1));
    // After this barrier all threads see the tile, and no thread reads the tile
    // that the next copy overwrites.
    c.barrier();
    if (started < steps.size())
      startStep(part, started++);
    if (!now.isOfKeys) {
      addValues(part, step, sums);
      continue;
    }
    scores = guarded(isSeen, scores, [&, step = step](Values &next) {
      tiles->addScores(next, queryTile, tileOf(step), steps[step].first,
                       steps[step].count);
    });
    if (!steps[step + 1].isOfKeys)
      finishScores(part, scores);
  }
  return sums;
}

/// The scales of the keys, or of the values, of the thread's columns. Empty if
/// the cache holds floats.
PagedMapper::Values PagedMapper::scalesOf(Value scales) {
  Values loaded;
  if (!a.scales)
    return loaded;
  int64_t chunk = tiles->scoreChunk();
  for (int64_t j = 0; j < tiles->scoreColumns(); j += chunk) {
    Value key = c.add(c.mul(warp, chunkKeys), tiles->scoreKey(j));
    Value from = c.at(scales, c.mul(key, sizeof(float)));
    loaded.append(
        c.elements(c.loadVector(c.builder.getF32Type(), chunk, from)));
  }
  return loaded;
}

/// Turns products into what the factor is applied to.
void PagedMapper::capScores(Values &scores) {
  Values scales = scalesOf(keyScales);
  for (int64_t j = 0; j < tiles->scoreColumns(); ++j) {
    for (int64_t i = 0; i < tiles->scoreRows(); ++i) {
      Value &score = scores[tiles->scoreIndex(i, j)];
      if (!scales.empty())
        score = c.create<arith::MulFOp>(score, scales[j]);
      if (spec.softcap > 0)
        score = c.create<math::TanhOp>(
            c.create<arith::MulFOp>(score, number(spec.scoreFactor())));
      else if (spec.scale < 0)
        score = c.create<arith::NegFOp>(score);
    }
  }
}

/// Sets the scores of keys that a query does not see to minus infinity.
void PagedMapper::hide(const PartKeys &part, Values &scores) {
  Value hidden = number(-std::numeric_limits<float>::infinity());
  Value first =
      c.add(c.mul(part.firstPage, a.pageTokens), c.mul(warp, chunkKeys));
  auto ofRow = [&](Value ofLane, int64_t i) -> Value {
    auto shuffle = c.builder.create<mlir::gpu::ShuffleOp>(
        c.loc, ofLane, tiles->scoreRow(i), c.constant(warpSize),
        mlir::gpu::ShuffleMode::IDX);
    return shuffle.getShuffleResult();
  };
  for (int64_t i = 0; i < tiles->scoreRows(); ++i) {
    Value end = i32.sub(ofRow(keyEnd, i), first), begin, bits;
    if (keyBegin)
      begin = i32.sub(ofRow(keyBegin, i), first);
    if (part.bits)
      bits = ofRow(keyBits, i);
    for (int64_t j = 0; j < tiles->scoreColumns(); ++j) {
      Value key = tiles->scoreKey(j);
      Value &score = scores[tiles->scoreIndex(i, j)];
      score = i32.select(c.less(key, end), score, hidden);
      if (begin)
        score = i32.select(c.less(key, begin), hidden, score);
      if (!bits)
        continue;
      Value inPart = c.add(c.mul(warp, chunkKeys), key);
      Value ofKey = seen.bitsOfKeys(i32, bits, inPart, /*keys=*/1);
      score = i32.select(c.less(c.constant(0), ofKey), score, hidden);
    }
  }
}

/// Stores the maximum of a row's scores in this warp's chunk.
Value PagedMapper::shareMaxima(const Values &scores, int64_t i) {
  auto larger = [&](Value x, Value y) { return largerOf(x, y); };
  Value most = scores[tiles->scoreIndex(i, 0)];
  for (int64_t j = 1; j < tiles->scoreColumns(); ++j)
    most = largerOf(most, scores[tiles->scoreIndex(i, j)]);
  most = tiles->acrossRow(most, larger);
  Value place = c.add(c.mul(warp, shape.queries), tiles->scoreRow(i));
  InsideIf isFirst(c, tiles->isFirstOfRow());
  storeFloat(most, chunkMaxima, place);
  return most;
}

/// Turns scores into powers, and stores them and their sums. Explicit FMA fix
/// the rounding, whatever code surrounds them.
void PagedMapper::storePowers(Values &scores, ArrayRef<Value> most) {
  Value factor = number(spec.softcap > 0 ? spec.capFactor()
                                         : std::abs(spec.scoreFactor()));
  Values scales = scalesOf(valueScales);
  for (int64_t i = 0; i < tiles->scoreRows(); ++i) {
    Value sum, negated = c.create<arith::NegFOp>(most[i]);
    for (int64_t j = 0; j < tiles->scoreColumns(); ++j) {
      Value &score = scores[tiles->scoreIndex(i, j)];
      Value power = exp2(c.builder, c.loc, shape.element,
                         c.create<math::FmaOp>(score, factor, negated));
      sum = sum ? sumOf(sum, power) : power;
      score =
          scales.empty() ? power : c.create<arith::MulFOp>(power, scales[j]);
    }
    sum = tiles->acrossRow(sum, [&](Value x, Value y) { return sumOf(x, y); });
    tiles->storePowers(scores, powers, i);
    Value place = tiles->scoreRow(i);
    InsideIf isFirst(c, tiles->isFirstOfRow());
    storeFloat(sum, chunkSums, c.add(c.mul(warp, shape.queries), place));
    InsideIf isFirstWarp(c, c.less(warp, 1));
    storeFloat(most[i], maxima, place);
  }
}

void PagedMapper::finishScores(const PartKeys &part, Values &scores) {
  capScores(scores);
  hide(part, scores);
  for (int64_t i = 0; i < tiles->scoreRows(); ++i)
    shareMaxima(scores, i);
  c.barrier();
  Value factor = number(spec.softcap > 0 ? spec.capFactor()
                                         : std::abs(spec.scoreFactor()));
  Values most;
  for (int64_t i = 0; i < tiles->scoreRows(); ++i) {
    Value largest;
    for (int64_t w = 0; w < shape.warps; ++w) {
      Value ofWarp =
          loadFloat(chunkMaxima, c.add(tiles->scoreRow(i), w * shape.queries));
      largest = largest ? largerOf(largest, ofWarp) : ofWarp;
    }
    // A query that sees no key of the part has a finite maximum, so that its
    // powers are zero.
    most.push_back(largerOf(c.create<arith::MulFOp>(largest, factor),
                            number(std::numeric_limits<float>::lowest())));
  }
  storePowers(scores, most);
}

/// The partial result of the thread's row `i`: m, l, and the thread's features
/// of O.
PagedMapper::Values PagedMapper::resultOf(const Values &sums, int64_t i) {
  Value place = tiles->sumRow(i);
  if (tiles->sumRowExists(i))
    place = i32.min(place, shape.queries - 1);
  Values result = {loadFloat(maxima, place)};
  Value weights;
  for (int64_t w = 0; w < shape.warps; ++w) {
    Value ofWarp = loadFloat(chunkSums, c.add(place, w * shape.queries));
    weights = weights ? sumOf(weights, ofWarp) : ofWarp;
  }
  result.push_back(weights);
  for (int64_t j = 0; j < tiles->sumColumns(); ++j)
    result.push_back(sums[tiles->sumIndex(i, j)]);
  return result;
}

} // namespace heddle::gpu
