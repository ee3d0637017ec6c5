//===- KeptLayers.h - The layers that a step computes -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the log says of layer dropping.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_KEPTLAYERS_H
#define HEDDLE_RUNTIME_APP_KEPTLAYERS_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/app/RunLog.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace heddle::rt {

/// The layers that a training step keeps, that is, computes.
struct KeptLayers {
  std::vector<int64_t> layers; ///< Indices of the kept layers, from 0.
  /// theta(t) of progressive layer dropping; nullopt with constant rates.
  std::optional<double> theta;
  double droppedFlops = 0; ///< Model FLOPs of the layers that are not kept.

  /// Adds the layers, and theta(t) if there is one, to a step's line of the
  /// log.
  void addTo(JsonLine &line) const;
  /// Prints the layers of step `step`, counted from 1, to stdout, for example
  /// as `step 1: 0 2 4`.
  void print(int64_t step) const;
};

/// Throws H0179 if --print-kept-layers asks for the layers of `steps` steps,
/// and `plan` drops no layers.
void requireLayerDrop(const plan::Plan &plan, int64_t steps);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_KEPTLAYERS_H
