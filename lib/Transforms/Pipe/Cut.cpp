//===- Cut.cpp - How many layers each stage gets --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Pipe/Cut.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

using namespace heddle::pipe;

//===----------------------------------------------------------------------===//
// By cost
//===----------------------------------------------------------------------===//

namespace {

constexpr int64_t impossible = std::numeric_limits<int64_t>::max();

/// Finds the best partition of the layers into stages. Costs are rounded to
/// integers, because sums of floating-point numbers depend on the order of
/// their summands. Otherwise two stages with equal layers could have different
/// costs.
class Partition {
public:
  Partition(const LayerCosts &costs, int64_t stages)
      : layers(costs.layers.size()), stages(stages), before(layers + 1) {
    double total = std::accumulate(costs.layers.begin(), costs.layers.end(),
                                   costs.first + costs.last);
    double scale = total > 0 ? (1 << 20) / total : 0;
    auto units = [&](double cost) { return std::llround(cost * scale); };
    // Each layer costs at least 1, so that every stage gets the same number of
    // layers if no layer costs anything.
    for (int64_t layer = 0; layer < layers; ++layer)
      before[layer + 1] =
          before[layer] + std::max<int64_t>(1, units(costs.layers[layer]));
    first = units(costs.first);
    last = units(costs.last);
  }

  /// Returns the partition that minimizes an objective (for example the cost of
  /// the slowest stage), and its objective. The objective is computed stage by
  /// stage: `combine` gets the objective of the stages so far and the cost of
  /// the next stage, and returns the objective with the next stage. Of several
  /// best partitions, returns the one with the fewest layers in the first
  /// stages.
  template <typename Fn> std::pair<int64_t, Cut> solve(Fn combine) const;

private:
  int64_t cost(int64_t stage, int64_t from, int64_t to) const {
    return before[to] - before[from] + (stage == 0 ? first : 0) +
           (stage + 1 == stages ? last : 0);
  }

  int64_t layers, stages;
  std::vector<int64_t> before;
  int64_t first = 0, last = 0;
};

} // namespace

template <typename Fn>
std::pair<int64_t, Cut> Partition::solve(Fn combine) const {
  // best[end] is the smallest objective (for example the cost of the slowest
  // stage) of a partition of the first `end` layers into the stages that were
  // handled so far.
  std::vector<int64_t> best(layers + 1, impossible);
  std::vector<std::vector<int64_t>> begins;
  best[0] = 0;
  for (int64_t stage = 0; stage < stages; ++stage) {
    std::vector<int64_t> next(layers + 1, impossible);
    std::vector<int64_t> &begin = begins.emplace_back(layers + 1);
    for (int64_t end = stage + 1; end <= layers; ++end)
      for (int64_t from = stage; from < end; ++from) {
        if (best[from] == impossible)
          continue;
        int64_t value = combine(best[from], cost(stage, from, end));
        if (value < next[end]) {
          next[end] = value;
          begin[end] = from;
        }
      }
    best = std::move(next);
  }
  Cut cut(stages);
  for (int64_t stage = stages - 1, end = layers; stage >= 0; --stage) {
    cut[stage] = end - begins[stage][end];
    end = begins[stage][end];
  }
  return {best[layers], cut};
}

Cut heddle::pipe::cutByCost(const LayerCosts &costs, int64_t stages) {
  if (stages == 1)
    return {static_cast<int64_t>(costs.layers.size())};
  Partition partition(costs, stages);
  int64_t most = partition
                     .solve([](int64_t before, int64_t cost) {
                       return std::max(before, cost);
                     })
                     .first;
  return partition
      .solve([most](int64_t before, int64_t cost) {
        return cost > most ? impossible : before + cost * cost;
      })
      .second;
}

//===----------------------------------------------------------------------===//
// By the user
//===----------------------------------------------------------------------===//

/// Handles a repeat count: if `rest` begins with `*`, reads the number after it
/// and repeats the end of `text`, from `start` on, this many times. Returns
/// false if the number is missing or too large.
static bool repeat(std::string &text, size_t start, llvm::StringRef &rest) {
  constexpr size_t longest = 1 << 16;
  if (!rest.consume_front("*"))
    return true;
  size_t count = 0;
  if (rest.consumeInteger(10, count) || count == 0 || count > longest ||
      count * (text.size() - start) > longest)
    return false;
  std::string piece = text.substr(start);
  for (size_t i = 1; i < count; ++i)
    text += piece;
  return true;
}

/// Expands a layout in Megatron's syntax (see readCut): writes out repeats and
/// groups, and drops commas. `text` then has a letter for each layer and a `|`
/// for the end of each stage but the last. Returns an error message, or "".
static std::string expandLayout(llvm::StringRef layout, std::string &text) {
  llvm::SmallVector<size_t> groups;
  for (llvm::StringRef rest = layout; !rest.empty();) {
    char letter = rest.front();
    rest = rest.drop_front();
    size_t start = text.size();
    if (letter == ',' || letter == ' ')
      continue;
    if (letter == '(') {
      groups.push_back(start);
      continue;
    }
    if (letter == ')') {
      if (groups.empty())
        return "has a ) without a (";
      start = groups.pop_back_val();
    } else if (llvm::StringRef("EtL|").contains(letter)) {
      text += letter;
    } else {
      return std::string("has '") + letter +
             "'; E, t, L, |, *, parentheses and commas are possible";
    }
    if (!repeat(text, start, rest))
      return "has a count that is not possible before \"" + rest.str() + "\"";
  }
  return groups.empty() ? "" : "has a ( without a )";
}

static std::string readLayout(llvm::StringRef layout, Cut &cut) {
  std::string text;
  if (std::string wrong = expandLayout(layout, text); !wrong.empty())
    return wrong;
  llvm::StringRef inner = text;
  if (!inner.consume_front("E") || !inner.consume_back("L") ||
      inner.contains('E') || inner.contains('L'))
    return "has not one E, at the beginning, and one L, at the end";
  llvm::SmallVector<llvm::StringRef> stages;
  inner.split(stages, '|');
  for (llvm::StringRef stage : stages)
    cut.push_back(stage.size());
  return "";
}

static std::string readCounts(llvm::StringRef layout, Cut &cut) {
  llvm::SmallVector<llvm::StringRef> words;
  layout.split(words, ',');
  for (llvm::StringRef word : words) {
    uint32_t count = 0;
    if (word.trim().getAsInteger(10, count))
      return "has \"" + word.trim().str() + "\", which is not a number";
    cut.push_back(count);
  }
  return "";
}

static std::string checkCut(const Cut &cut, int64_t layers, int64_t stages) {
  int64_t count = cut.size();
  if (count != stages)
    return "has " + std::to_string(count) + " stages, not " +
           std::to_string(stages);
  for (int64_t stage = 1; stage + 1 < stages; ++stage)
    if (cut[stage] == 0)
      return "has no layer in stage " + std::to_string(stage);
  int64_t sum = std::accumulate(cut.begin(), cut.end(), int64_t(0));
  if (sum != layers)
    return "has " + std::to_string(sum) + " layers; the model has " +
           std::to_string(layers);
  return "";
}

std::optional<Cut> heddle::pipe::readCut(llvm::StringRef layout, int64_t layers,
                                         int64_t stages, std::string &why) {
  Cut cut;
  bool letters = layout.find_first_of("EtL|") != llvm::StringRef::npos;
  why = letters ? readLayout(layout, cut) : readCounts(layout, cut);
  if (why.empty())
    why = checkCut(cut, layers, stages);
  return why.empty() ? std::optional(cut) : std::nullopt;
}

std::string heddle::pipe::printCut(llvm::ArrayRef<int64_t> cut) {
  auto words =
      llvm::map_range(cut, [](int64_t count) { return std::to_string(count); });
  return llvm::join(words, ",");
}
