//===- Collective.cpp - What collectives compute ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements each collective on the elements of all ranks.
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/Collective.h"

#include "llvm/ADT/STLExtras.h"
#include <numeric>

using heddle::plan::CollectiveKind;
using heddle::plan::PartLayout;

namespace heddle::eval {

static bool alike(const PartLayout &a, const PartLayout &b) {
  return a.outer == b.outer && a.segments == b.segments;
}

bool Collective::operator==(const Collective &other) const {
  return kind == other.kind && axes == other.axes && wire == other.wire &&
         shape == other.shape && alike(layout, other.layout) &&
         alike(concat, other.concat);
}

/// Returns the lengths of the segments of a row. Each segment is split evenly
/// among the ranks. If the layout has no segments, the whole row is one.
static std::vector<int64_t> segmentsOf(const PartLayout &layout,
                                       int64_t count) {
  if (layout.segments.empty())
    return {count / layout.outer};
  return layout.segments;
}

static int64_t elementsOf(const std::vector<int64_t> &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1),
                         std::multiplies<int64_t>());
}

bool fits(const Collective &collective, int64_t inputElements, int64_t ranks) {
  int64_t outputElements = elementsOf(collective.shape);
  switch (collective.kind) {
  case CollectiveKind::AllReduce:
  case CollectiveKind::Rotate:
    return inputElements == outputElements;
  case CollectiveKind::ReduceScatter:
    return inputElements == outputElements * ranks &&
           splits(collective.layout, inputElements, ranks);
  case CollectiveKind::AllGather:
    return outputElements == inputElements * ranks &&
           splits(collective.layout, outputElements, ranks);
  case CollectiveKind::AllToAll:
    return inputElements == outputElements &&
           splits(collective.layout, inputElements, ranks) &&
           splits(collective.concat, outputElements, ranks);
  }
  llvm_unreachable("every kind is handled");
}

std::vector<int64_t> elementsOfPart(const PartLayout &layout, int64_t count,
                                    int64_t ranks, int64_t number) {
  std::vector<int64_t> elements;
  std::vector<int64_t> segments = segmentsOf(layout, count);
  int64_t begin = 0;
  for (int64_t row = 0; row < layout.outer; ++row)
    for (int64_t segment : segments) {
      int64_t own = segment / ranks;
      for (int64_t i = 0; i < own; ++i)
        elements.push_back(begin + number * own + i);
      begin += segment;
    }
  return elements;
}

static Tensor rounded(const Tensor &value, std::optional<ElementKind> wire) {
  if (!wire || !isFloat(value.kind()))
    return value;
  return value.convertTo(*wire).withKind(value.kind());
}

static Tensor sumOf(const Collective &collective,
                    llvm::ArrayRef<Tensor> inputs) {
  Tensor sum(inputs.front().kind(), inputs.front().shape());
  for (const Tensor &input : inputs) {
    Tensor given = rounded(input, collective.wire);
    for (auto [total, value] : llvm::zip(sum.mutableFloats(), given.floats()))
      total += value;
  }
  return rounded(sum, collective.wire);
}

llvm::SmallVector<Tensor> combine(const Collective &collective,
                                  llvm::ArrayRef<Tensor> inputs) {
  int64_t ranks = inputs.size(), count = inputs.front().numElements();
  ElementKind kind = inputs.front().kind();
  llvm::SmallVector<Tensor> results(ranks, Tensor(kind, collective.shape));
  int64_t outputs = results.front().numElements();
  auto part = [&](const PartLayout &layout, int64_t elements, int64_t number) {
    return elementsOfPart(layout, elements, ranks, number);
  };
  bool sums = collective.kind == CollectiveKind::AllReduce ||
              collective.kind == CollectiveKind::ReduceScatter;
  Tensor sum = sums ? sumOf(collective, inputs) : Tensor();
  for (int64_t to = 0; to < ranks; ++to) {
    Tensor &result = results[to];
    if (collective.kind == CollectiveKind::AllReduce)
      result.copyFrom(sum, 0, 0, count);
    if (collective.kind == CollectiveKind::ReduceScatter)
      for (auto [at, element] :
           llvm::enumerate(part(collective.layout, count, to)))
        result.copyFrom(sum, element, at, 1);
    if (collective.kind == CollectiveKind::Rotate)
      result.copyFrom(
          rounded(inputs[(to + ranks - 1) % ranks], collective.wire), 0, 0,
          count);
    if (sums || collective.kind == CollectiveKind::Rotate)
      continue;
    bool gathers = collective.kind == CollectiveKind::AllGather;
    for (int64_t from = 0; from < ranks; ++from) {
      Tensor given = rounded(inputs[from], collective.wire);
      std::vector<int64_t> places =
          part(gathers ? collective.layout : collective.concat, outputs, from);
      std::vector<int64_t> sources(places.size());
      std::iota(sources.begin(), sources.end(), 0);
      if (!gathers)
        sources = part(collective.layout, count, to);
      for (auto [source, place] : llvm::zip(sources, places))
        result.copyFrom(given, source, place, 1);
    }
  }
  return results;
}

} // namespace heddle::eval
