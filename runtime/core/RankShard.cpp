//===- RankShard.cpp - A rank's shard of a tensor -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/RankShard.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <numeric>

using namespace heddle;
using namespace heddle::rt;

using Axes = std::vector<std::string>;

[[noreturn]] static void malformed() {
  fail("H0385", "the plan is malformed: a part does not fit into its whole",
       "compile the binary again");
}

static int64_t ceilDivide(int64_t value, int64_t parts) {
  return (value + parts - 1) / parts;
}

/// Appends a range, or extends the last one if the new range continues it.
static void addRun(const ElementRange &run, std::vector<ElementRange> &runs) {
  if (!runs.empty() && runs.back().whole + runs.back().count == run.whole &&
      runs.back().local + runs.back().count == run.local)
    runs.back().count += run.count;
  else
    runs.push_back(run);
}

RankShard::RankShard(const plan::Placement &placement,
                     const std::vector<int64_t> &shape, const plan::Mesh &mesh,
                     int64_t rank)
    : whole(placement.whole.empty() ? shape : placement.whole) {
  if (whole.size() != shape.size() || placement.split.size() > shape.size())
    malformed();
  for (size_t i = 0; i < shape.size(); ++i) {
    Axes axes = i < placement.split.size() ? placement.split[i] : Axes();
    std::vector<int64_t> segments = {whole[i]};
    if (i + 1 == shape.size() && !placement.segments.empty())
      segments = placement.segments;
    if (std::accumulate(segments.begin(), segments.end(), int64_t(0)) !=
        whole[i])
      malformed();
    int64_t parts = mesh.groupSize(axes), number = mesh.coordinate(rank, axes);
    Dimension dimension;
    dimension.whole = whole[i];
    int64_t segmentBegin = 0;
    for (int64_t segment : segments) {
      int64_t extent = ceilDivide(segment, parts);
      int64_t begin = std::min(segment, number * extent);
      int64_t count = std::min(segment, begin + extent) - begin;
      if (count > 0)
        addRun({segmentBegin + begin, dimension.local, count}, dimension.runs);
      dimension.local += extent;
      segmentBegin += segment;
    }
    if (dimension.local != shape[i])
      malformed();
    dimensions.push_back(std::move(dimension));
  }

  end = std::accumulate(shape.begin(), shape.end(), int64_t(1),
                        std::multiplies<int64_t>());
  stored = end;
  if (!placement.flatAxes.empty()) {
    stored =
        ceilDivide(placement.flatElements, mesh.groupSize(placement.flatAxes));
    begin = mesh.coordinate(rank, placement.flatAxes) * stored -
            placement.flatFirst;
    end = begin + stored;
  }

  for (const std::string &axis : mesh.atoms()) {
    // Pipeline stages hold different states: ranks of different stages are no
    // replicas of each other.
    if (mesh.roleOf(axis) == plan::AxisRole::Pipeline)
      continue;
    auto splits = [&](const Axes &axes) { return mesh.covers(axes, axis); };
    bool replicates =
        !splits(placement.flatAxes) &&
        std::none_of(placement.split.begin(), placement.split.end(), splits);
    first &= !replicates || mesh.coordinate(rank, {axis}) == 0;
  }
}

void RankShard::append(ElementRange run,
                       std::vector<ElementRange> &runs) const {
  int64_t skipped = std::max<int64_t>(0, begin - run.local);
  int64_t last = std::min(run.local + run.count, end);
  run.local += skipped;
  run.whole += skipped;
  run.count = last - run.local;
  if (run.count <= 0)
    return;
  run.local -= begin;
  addRun(run, runs);
}

std::vector<ElementRange> RankShard::runs() const {
  // The dimensions from `inner` on are not split: the rank has all of their
  // indices. Therefore one index of the dimension `inner` - 1 selects a block
  // of consecutive elements.
  size_t inner = dimensions.size();
  int64_t block = 1;
  while (inner > 0 && dimensions[inner - 1].runs.size() == 1 &&
         dimensions[inner - 1].local == dimensions[inner - 1].whole)
    block *= dimensions[--inner].whole;
  // The rank's ranges in a tensor that consists only of the dimensions handled
  // so far, as indices into a row-major array of these dimensions.
  std::vector<ElementRange> outer = {{0, 0, 1}};
  for (size_t i = 0; i < inner; ++i) {
    const Dimension &dimension = dimensions[i];
    std::vector<ElementRange> next;
    for (const ElementRange &run : outer)
      for (int64_t index = 0; index < run.count; ++index)
        for (const ElementRange &piece : dimension.runs)
          next.push_back({(run.whole + index) * dimension.whole + piece.whole,
                          (run.local + index) * dimension.local + piece.local,
                          piece.count});
    outer = std::move(next);
  }
  std::vector<ElementRange> result;
  for (const ElementRange &run : outer)
    append({run.whole * block, run.local * block, run.count * block}, result);
  return result;
}
