//===- PackedGemmAmxSums.cpp - Scales the sums of AMX tiles ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scales the sums that AMX tiles compute, adds them to the totals and stores
// the results.
//
//===----------------------------------------------------------------------===//

#include "PackedGemmAmx.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace heddle::cpu {

/// Describes the sums over block `block` of K (activations with a common scale)
/// that are still to be scaled and added after row tiles `tile` to `tile` +
/// `rowTiles` (exclusive) were multiplied by all columns. Only the sums of the
/// last columns are left, because vector code adds the others while AMX
/// multiplies the next columns.
PackedGemmAmx::PendingSums PackedGemmAmx::lastColumns(Value group, Value block,
                                                      Value tile,
                                                      int64_t rowTiles) const {
  int64_t most = columnsTogether(rowTiles);
  auto numColumns = static_cast<int64_t>(columns.size());
  int64_t first = (numColumns - 1) / most * most;
  return {group, block, tile, rowTiles, first, numColumns - first};
}

/// Describes the sums over block `block` of K that are still to be scaled and
/// added after all row tiles were multiplied. The block (activations with a
/// common scale) is in group `group` (weights with a common scale).
PackedGemmAmx::PendingSums PackedGemmAmx::lastOf(Value group, Value block) {
  int64_t numTiles = llvm::divideCeil(rows, layout.tileRows);
  int64_t rest = numTiles % layout.tilesOfRows;
  int64_t rowTiles = rest > 0 ? rest : layout.tilesOfRows;
  return lastColumns(group, block, b.constant(numTiles - rowTiles), rowTiles);
}

/// Scales the pending integer sums of a block (activations with a common scale)
/// and adds them to `groupSums`, the sums of a group (weights with a common
/// scale). If a group has one block only, adds them to `totals`, the sums over
/// all of K. The caller splits the rows into `parts` parts, so that it can emit
/// tile instructions between the parts; this call emits part `part`.
void PackedGemmAmx::addIntegers(const PendingSums &pending, int64_t part,
                                int64_t parts) {
  SmallVector<PackedSums::Scale> scales;
  if (activations.layout.blocksOfGroup() == 1)
    for (const WeightColumn &column :
         ArrayRef(columns).slice(pending.firstColumn, pending.count))
      scales.push_back(sums.scaleOf(*column.weight, column.panel, pending.group,
                                    column.vector));
  int64_t all = pending.rowTiles * layout.tileRows;
  int64_t begin = all * part / parts, end = all * (part + 1) / parts;
  for (int64_t rowTile = 0; rowTile < pending.rowTiles; ++rowTile) {
    int64_t first = rowTile * layout.tileRows;
    int64_t from = std::max<int64_t>(begin - first, 0);
    int64_t to = std::min(end - first, layout.tileRows);
    if (from >= to)
      continue;
    Value last = b.constant(to);
    if (rows % layout.tileRows != 0) {
      Value row = b.mul(b.add(pending.tile, rowTile), layout.tileRows);
      last = b.min(last, b.sub(b.constant(rows), row));
    }
    b.forLoop(b.constant(from), last, 1,
              [&](Value i) { addRow(pending, scales, rowTile, i); });
  }
}

/// Multiplies the pending sums of row `inTile` of a row tile by the scale of
/// their block of activations. If `scales` is empty, adds the results to
/// `groupSums`; `scaleGroup` applies the weight's scales later. Otherwise a
/// group of the weight has one block only, and `scales` are the weight's scales
/// for the columns: applies them and adds the results to `totals`.
void PackedGemmAmx::addRow(const PendingSums &pending,
                           ArrayRef<PackedSums::Scale> scales, int64_t rowTile,
                           Value inTile) {
  int64_t count = pending.count;
  Value local =
      b.add(b.mul(b.add(pending.tile, rowTile), layout.tileRows), inTile);
  SmallVector<Value> added, to;
  for (int64_t c = 0; c < count; ++c) {
    SmallVector<Value> whole;
    for (int64_t digit = 0; digit < digits(); ++digit) {
      int64_t sum = (rowTile * digits() + digit) * count + c;
      whole.push_back(
          load(i32s, b.advance(at(layout.wholeAt + sum * AmxTiles::tileBytes),
                               i32s, inTile)));
    }
    if (isUnpacked())
      whole[0] = b.create<arith::AddIOp>(
          whole[0], activations.beginOfSums(
                        ofBlock(layout.beginsAt, pending.block, local)));
    to.push_back(sumAt(scales.empty() ? groupSums : totals,
                       pending.firstColumn + c, local));
    Value before = load(f32s, to.back());
    added.push_back(
        activations.addBlock(ofBlock(layout.scalesAt, pending.block, local),
                             whole, scales.empty() ? before : b.zeros(f32s)));
    if (!scales.empty())
      added.back() =
          sums.scaled(scales[c], added.back(), local, pending.group, before);
  }
  // Store after all loads, so that LLVM can load the row's scale once for all
  // columns.
  for (auto [value, pointer] : llvm::zip_equal(added, to))
    b.store(value, pointer, 4);
}

/// Applies the weight's scales of group `group` to `groupSums` and adds the
/// results to `totals`.
void PackedGemmAmx::scaleGroup(Value group) {
  for (auto [index, column] : llvm::enumerate(columns)) {
    auto at = static_cast<int64_t>(index);
    PackedSums::Scale scale =
        sums.scaleOf(*column.weight, column.panel, group, column.vector);
    b.forLoop(b.constant(0), b.constant(rows), 1, [&](Value local) {
      Value sum = load(f32s, sumAt(groupSums, at, local));
      Value to = sumAt(totals, at, local);
      Value total = isOneGroup() ? b.zeros(f32s) : load(f32s, to);
      b.store(sums.scaled(scale, sum, local, group, total), to, 4);
    });
  }
}

void PackedGemmAmx::finish() {
  if (isOneGroup())
    scaleGroup(b.constant(0));
  auto numWeights = static_cast<int64_t>(part->weights.size());
  auto numPanels = static_cast<int64_t>(columns.size()) / vectors / numWeights;
  auto finishRow = [&](int64_t panel, Value local) {
    for (int64_t v = 0; v < vectors; ++v) {
      int64_t first = panel * numWeights * vectors + v;
      Value column = b.add(b.mul(columns[first].panel, panelWidth),
                           v * f32s.getNumElements());
      SmallVector<Value> ofRow;
      for (int64_t w = 0; w < numWeights; ++w)
        ofRow.push_back(load(f32s, sumAt(totals, first + w * vectors, local)));
      sums.store(*part, ofRow, b.add(firstRow, local), column);
    }
  };
  for (int64_t panel = 0; panel < numPanels; ++panel)
    b.forLoop(b.constant(0), b.constant(rows), 1,
              [&](Value local) { finishRow(panel, local); });
}

} // namespace heddle::cpu
