//===- Cut.h - Which layers each stage gets ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// For each virtual stage, how many of the layers it runs; in order.
using Cut = llvm::SmallVector<int64_t>;

/// The arithmetic of one micro-batch, in any unit.
struct LayerCosts {
  llvm::SmallVector<double> layers;
  double first = 0; ///< Before the first layer: the embedding.
  double last = 0;  ///< After the last layer: final norm, head, loss.
};

/// The cut into `stages` of at least one layer each whose most expensive stage
/// is the cheapest; among those, the most even one (least squares), and then
/// the one with the fewest layers in front, where most micro-batches are held.
/// Dynamic programming over prefixes. There are at least as many layers as
/// stages, or there is one stage.
Cut cutByCost(const LayerCosts &costs, int64_t stages);

/// Reads the user's cut: the layers of each virtual stage as "3,4,5", or
/// Megatron's layout "Et*3|(tt|)*2tL" (E embedding, t layer, L loss, `|`
/// between stages, `*n` repeats a letter or a group, commas mean nothing). Only
/// the first and the last stage may have no layer. Nothing when it does not
/// fit; then `why` says so.
std::optional<Cut> readCut(llvm::StringRef layout, int64_t layers,
                           int64_t stages, std::string &why);

/// As `readCut` reads it: "3,4,5".
std::string printCut(llvm::ArrayRef<int64_t> cut);

} // namespace heddle::pipe

#endif // HEDDLE_TRANSFORMS_PIPE_CUT_H
