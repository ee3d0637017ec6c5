//===- Collective.h - What collectives compute ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives of the reference interpreter, as functions from the inputs of all
// ranks to their results.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_COLLECTIVE_H
#define HEDDLE_EVAL_COLLECTIVE_H

#include "heddle/Eval/Tensor.h"
#include "heddle/PlanFormat/Collective.h"
#include "llvm/ADT/SmallVector.h"

namespace heddle::eval {

/// A collective. It has the same description on every rank of its group.
struct Collective {
  plan::CollectiveKind kind = plan::CollectiveKind::AllReduce;
  std::vector<std::string> axes;
  /// The layout of the buffer that is split over ranks, as in
  /// plan::CollectiveShape.
  plan::PartLayout layout;
  plan::PartLayout concat; ///< The result's layout; only for all_to_all.
  /// The element kind to which inputs and sums are rounded; nullopt: they are
  /// not rounded.
  std::optional<ElementKind> wire;
  std::vector<int64_t> shape; ///< The shape of the result.

  bool operator==(const Collective &other) const;
};

/// Returns the indices of the elements that the rank `number` gets if a buffer
/// of `count` elements is split among `ranks` ranks. `layout` must fit the
/// buffer, as plan::splits checks.
std::vector<int64_t> elementsOfPart(const plan::PartLayout &layout,
                                    int64_t count, int64_t ranks,
                                    int64_t number);

/// Whether the collective accepts inputs of this many elements.
bool fits(const Collective &collective, int64_t inputElements, int64_t ranks);

/// Computes the results of all ranks from their inputs. Sums are in double
/// precision, in the order of ranks.
llvm::SmallVector<Tensor> combine(const Collective &collective,
                                  llvm::ArrayRef<Tensor> inputs);

} // namespace heddle::eval

#endif // HEDDLE_EVAL_COLLECTIVE_H
