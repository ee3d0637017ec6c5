//===- Collective.h - What collectives compute ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_COLLECTIVE_H
#define HEDDLE_EVAL_COLLECTIVE_H

#include "heddle/Eval/Tensor.h"
#include "heddle/PlanFormat/Collective.h"
#include "llvm/ADT/SmallVector.h"

namespace heddle::eval {

/// One collective, as every rank of its group runs it.
struct Collective {
  plan::CollectiveKind kind = plan::CollectiveKind::AllReduce;
  std::vector<std::string> axes;
  /// Of the split buffer, as in plan::CollectiveShape.
  plan::PartLayout layout;
  plan::PartLayout concat; ///< all_to_all: of the result.
  /// What every contribution and every sum is rounded to; none: not at all.
  std::optional<ElementKind> wire;
  std::vector<int64_t> shape; ///< Of the result.

  bool operator==(const Collective &other) const;
};

/// Where part `number` of `ranks` stands in a buffer of `count` elements, in
/// the order of the part's own elements. `plan::splits` must hold.
std::vector<int64_t> elementsOfPart(const plan::PartLayout &layout,
                                    int64_t count, int64_t ranks,
                                    int64_t number);

/// Whether the collective can be run on inputs of so many elements.
bool fits(const Collective &collective, int64_t inputElements, int64_t ranks);

/// The results of all ranks of the group, from what each of them gives. Sums
/// are made in double precision, in the order of the ranks.
llvm::SmallVector<Tensor> combine(const Collective &collective,
                                  llvm::ArrayRef<Tensor> inputs);

} // namespace heddle::eval

#endif // HEDDLE_EVAL_COLLECTIVE_H
