//===- ExplainLayerDrop.h - The cost of steps that drop layers --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The range of the cost of a training step that may drop layers, and its
// expected cost.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINLAYERDROP_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINLAYERDROP_H

#include "heddle/Cost/ClusterCost.h"
#include <nlohmann/json_fwd.hpp>

namespace heddle::driver {

/// The cost of a training step of a plan with layer dropping, if it keeps all
/// layers, if it drops all of them, and on average.
class LayerDropCost {
public:
  /// Computes nothing if no layer of the plan can be dropped. `flops` are those
  /// of a step that keeps all layers, summed over all ranks. Bytes are those of
  /// `rank`, which must belong to the plan's selected stage. Without `cost`
  /// (null) there are no seconds. If there are several train programs, the
  /// first is described.
  LayerDropCost(const plan::Plan &plan, int64_t rank, double flops,
                const cost::ClusterCost *cost);

  /// Adds the field `layer_drop` to the JSON output of `heddle explain`, unless
  /// no layer can be dropped.
  void addTo(nlohmann::json &json) const;
  void print() const;

private:
  struct StepCost {
    double layers = 0; ///< The number of layers that the step keeps.
    double flops = 0, bytesSent = 0;
    double bytesMoved = 0; ///< Bytes copied between kinds of memory.
    double seconds = 0;
  };
  /// The values of the plan's conditions in a step.
  using Kept = std::vector<bool>;

  /// Computes everything but the seconds.
  StepCost costOf(const Kept &kept) const;
  double secondsOf(const Kept &kept) const;
  StepCost expectedIn(int64_t step) const;
  void printRow(const char *name, const StepCost &step,
                std::vector<std::vector<std::string>> &rows) const;

  const plan::Plan &plan;
  int64_t rank;
  double flops;
  const cost::ClusterCost *cost; ///< Null: the times are not known.
  StepCost all, none, first, limit;
};

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINLAYERDROP_H
