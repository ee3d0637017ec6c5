//===- Cut.h - How many layers each stage gets ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides how many layers each pipeline stage gets: by cost, or as the user
// says with --pipeline-layout. Used by pipe-schedule.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_PIPE_CUT_H
#define HEDDLE_TRANSFORMS_PIPE_CUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace heddle::pipe {

/// The number of layers of each virtual stage, in order.
using Cut = llvm::SmallVector<int64_t>;

/// The numbers of floating-point operations (FLOPs) of one micro-batch. Only
/// their ratios matter.
struct LayerCosts {
  llvm::SmallVector<double> layers; ///< The FLOPs of each layer.
  double first = 0; ///< The FLOPs of the embedding, before the first layer.
  /// The FLOPs of the final norm, the head and the loss, after the last layer.
  double last = 0;
};

/// Cuts the layers into `stages` stages of at least one layer each, so that the
/// most expensive stage is as cheap as possible. Among such cuts it takes the
/// one with the most even costs (least squares). Among equally even cuts it
/// takes the one with the fewest layers in the first stages, because these hold
/// the activations of most micro-batches. `costs` must have at least as many
/// layers as stages, unless `stages` is 1. Uses dynamic programming over
/// prefixes.
Cut cutByCost(const LayerCosts &costs, int64_t stages);

/// Reads how the user divides the layers between stages. The text is either the
/// number of layers of each virtual stage, "3,4,5", or Megatron's layout,
/// "Et*3|(tt|)*2tL". In a layout E is the embedding, t a layer, L the loss and
/// `|` the end of a stage; `*n` repeats a letter or a group, and commas mean
/// nothing. Only the first and the last stage may have no layer. Returns
/// nullopt, and sets `why`, if the text is invalid or does not fit the model.
std::optional<Cut> readCut(llvm::StringRef layout, int64_t layers,
                           int64_t stages, std::string &why);

/// Prints the number of layers of each virtual stage as text that `readCut`
/// can read: "3,4,5".
std::string printCut(llvm::ArrayRef<int64_t> cut);

} // namespace heddle::pipe

#endif // HEDDLE_TRANSFORMS_PIPE_CUT_H
