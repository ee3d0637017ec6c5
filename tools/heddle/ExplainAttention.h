//===- ExplainAttention.h - Layouts of block-sparse attention ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of `heddle explain` about layouts of attention.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINATTENTION_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINATTENTION_H

#include "heddle/PlanFormat/Plan.h"
#include <nlohmann/json.hpp>

namespace heddle::driver {

/// The layouts of a plan: for each layer the density of its attention, over all
/// heads and by head, and how evenly the ranks of ring attention share its
/// blocks; and the FLOPs of a step, over all ranks, if attention were dense.
class AttentionLayouts {
public:
  /// `flops` is the number of FLOPs of a step, over all ranks.
  AttentionLayouts(const plan::Plan &plan, double flops);

  /// Adds the keys `attention` and `dense_flops_per_step`. Does nothing if the
  /// plan has no layouts.
  void addTo(nlohmann::json &json) const;
  void print() const;

private:
  struct Layer {
    std::string path;
    int64_t block;
    std::vector<double> heads; ///< One density if all heads have one layout.
    /// With ring attention: the share of the blocks that each rank of the ring
    /// computes, whose sum is 1; and the share of a step's time in which the
    /// ranks compute, since each ring step takes as long as its slowest rank.
    std::vector<double> ranks;
    double busy = 1;
    double density() const;
  };
  void addLayers(const plan::LayoutUse &use, const plan::LayoutBits &bits);
  void shareRing(const plan::LayoutBits &bits, Layer &layer) const;

  std::vector<Layer> layers;
  int64_t ring = 1; ///< Ranks of ring attention; 1: none.
  double flops, denseFlops;
};

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINATTENTION_H
